// A micro batch as every module sees it, where its tensors lie, and the dropout masks that are drawn for it.
#pragma once

#include <cstdint>
#include <functional>

#include "lowering/memory_plan.h"
#include "model/model_config.h"
#include "ops/random.h"
#include "ops/tensor.h"

namespace trireme {

// Logits of some tokens of a micro batch, as the head of one tensor rank has them: [rows, columns and padding].
struct LogitChunk {
  Tensor logits;
  std::int64_t first_token = 0;
  std::int64_t first_column = 0;
  std::int64_t columns = 0;  // without padding
};
using LogitSink = std::function<void(const LogitChunk&)>;

// A micro batch as every module sees it. Tensors live on the device until the step ends.
struct MicroBatch {
  Tensor tokens;                      // int32 [N]
  Tensor targets;                     // int32 [N]
  Tensor weights;                     // fp32 [N]
  Tensor document_starts;             // int32 [B, T], of the tokens whose queries attention has here; may be missing
  Tensor places;                      // int32 [N]: each token's number in the whole micro batch; missing: in order
  Tensor positions;                   // int32 [N], where they begin anew with every document; missing: as `places` say
  Tensor loss_sums;                   // fp32 [2], written by the head: weighted loss, weight
  std::int64_t first_sample = 0;      // global number of its first sequence: dropout is drawn by global position
  std::uint64_t dropout_key = 0;      // of (seed, step)
  float gradient_factor = 1;          // gradients are those of it times the weighted sum of losses
  bool training = true;               // false: no gradients, no dropout
  bool first = false;                 // no earlier micro batch of the step did this part of this stage's work
  bool last = false;                  // no later micro batch of the step does this part of this stage's work
  const LogitSink* logits = nullptr;  // told of every chunk before its loss, unless `training`; may be missing

  // What rotary and learned positions are looked up by.
  const Tensor& PositionsOrPlaces() const { return positions.given() ? positions : places; }
};

// The tensor at a place, given the bases of the two areas.
inline Tensor TensorAt(const Place& place, char* kept, char* scratch) {
  if (!place.present()) {
    return {};
  }
  return {(place.area == Area::kKept ? kept : scratch) + place.offset, place.dtype, place.shape};
}

// The dropout of a site within a module, for `rows` tokens from `first_token` of those that this rank has.
Dropout DropoutOf(const ModelConfig& model, const MicroBatch& micro_batch, std::int64_t module, int site,
                  std::int64_t first_token, std::int64_t rows);
// Dropout of the weights of a block's attention, for a rank whose heads begin at `first_head`.
Dropout AttentionDropoutOf(const ModelConfig& model, const MicroBatch& micro_batch, std::int64_t module,
                           std::int64_t first_head);

}  // namespace trireme
