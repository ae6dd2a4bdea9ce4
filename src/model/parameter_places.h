// Where each parameter of a module stands in a ParameterTable: row indices, -1 for those that the family does not have.
// The order of the members is the order of the rows.
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

struct BlockParameters {
  int attention_norm_gain = -1;
  int attention_norm_bias = -1;
  int qkv_weight = -1;
  int qkv_bias = -1;
  int out_weight = -1;
  int out_bias = -1;
  int mlp_norm_gain = -1;
  int mlp_norm_bias = -1;
  int in_weight = -1;
  int in_bias = -1;
  int mlp_out_weight = -1;
  int mlp_out_bias = -1;
};

struct HeadParameters {
  int norm_gain = -1;
  int norm_bias = -1;
  int weight = -1;  // its own row, or the token table when tied
};

EmbeddingParameters PlacesOfEmbedding(const ParameterTable& table);
// 0 <= layer < layers.
BlockParameters PlacesOfBlock(const ParameterTable& table, std::int64_t layer);
HeadParameters PlacesOfHead(const ParameterTable& table);

}  // namespace trireme
