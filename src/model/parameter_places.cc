#include "model/parameter_places.h"

#include <cassert>

namespace trireme {
namespace {

// Hands out the rows of a module one after another, as TableWriter wrote them.
class RowReader {
 public:
  explicit RowReader(const std::vector<int>& rows) : rows_(rows) {}
  int Next(bool present = true) { return present ? rows_[next_++] : -1; }
  bool AtEnd() const { return next_ == rows_.size(); }

 private:
  const std::vector<int>& rows_;
  std::size_t next_ = 0;
};

}  // namespace

EmbeddingParameters PlacesOfEmbedding(const ParameterTable& table) {
  const ModelConfig& config = table.config();
  RowReader reader(table.OfModule(0));
  EmbeddingParameters places;
  places.token = reader.Next();
  places.position = reader.Next(config.position == PositionChoice::kLearned);
  places.norm_gain = reader.Next(config.embedding_norm);
  places.norm_bias = reader.Next(config.embedding_norm && config.norm_bias);
  assert(reader.AtEnd());
  return places;
}

HeadParameters PlacesOfHead(const ParameterTable& table) {
  const ModelConfig& config = table.config();
  RowReader reader(table.OfModule(config.layers + 1));
  HeadParameters places;
  places.norm_gain = reader.Next();
  places.norm_bias = reader.Next(config.norm_bias);
  places.weight = config.tie_embeddings ? table.token_table() : reader.Next();
  assert(reader.AtEnd());
  return places;
}

}  // namespace trireme
