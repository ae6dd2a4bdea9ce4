#include "nn/micro_batch.h"

#include "base/random.h"

namespace trireme {

Dropout DropoutOf(const ModelConfig& model, const MicroBatch& micro_batch, std::int64_t module, int site,
                  std::int64_t first_token, std::int64_t rows) {
  if (!micro_batch.training || model.dropout <= 0) {
    return {};
  }
  const auto place = static_cast<std::uint64_t>(module * 4 + site);
  const bool ordered = !micro_batch.places.given();
  const std::int64_t before = micro_batch.first_sample * model.sequence + (ordered ? first_token : 0);
  return {.probability = static_cast<float>(model.dropout),
          .key = CombineKeys(micro_batch.dropout_key, place),
          .first_element = before * model.hidden,
          .tokens = ordered ? Tensor{} : micro_batch.places.Rows(first_token, rows)};
}

Dropout AttentionDropoutOf(const ModelConfig& model, const MicroBatch& micro_batch, std::int64_t module,
                           std::int64_t first_head) {
  if (!micro_batch.training || model.attention_dropout <= 0) {
    return {};
  }
  constexpr int kSite = 3;
  const std::int64_t lines = (micro_batch.first_sample * model.heads + first_head) * model.sequence;
  return {.probability = static_cast<float>(model.attention_dropout),
          .key = CombineKeys(micro_batch.dropout_key, static_cast<std::uint64_t>(module * 4 + kSite)),
          .first_element = lines * model.sequence};
}

}  // namespace trireme
