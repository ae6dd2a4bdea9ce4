// Where the parameters of the embedding and the head stand in a ParameterTable: row indices, -1 for those that the
// family does not have. The order of the members is the order of the rows. Those of a block: ParameterTable::InBlock.
#pragma once

#include <cstdint>

#include "model/parameter_table.h"

namespace trireme {

struct EmbeddingParameters {
  int token = -1;
  int position = -1;
  int norm_gain = -1;
  int norm_bias = -1;
};

struct HeadParameters {
  int norm_gain = -1;
  int norm_bias = -1;
  int weight = -1;  // its own row, or the token table when tied
};

EmbeddingParameters PlacesOfEmbedding(const ParameterTable& table);
HeadParameters PlacesOfHead(const ParameterTable& table);

}  // namespace trireme
