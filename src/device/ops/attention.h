// Causal self-attention, rotary positions, and attention over cached keys and values for generation.
#pragma once

#include <cstdint>
#include <span>

#include "base/causal_pairs.h"
#include "device/ops/random.h"
#include "device/tensor.h"

namespace trireme {

// Causal self-attention over packed rows: qkv [B*T, (H + 2*Hkv) * D] = H query heads, then Hkv key heads, then Hkv
// value heads. Query head h reads key head h / (H / Hkv). score = scale * q.k (+ slope[h] * (key position - query
// position)); with a cap above 0 it is then cap * tanh(score / cap). document_starts [B, T] int32: position t sees keys
// in [document_starts[t], t]; missing: [0, t]. With a window above 0 it sees no more than `window` of them, the last
// ones. statistics [B, H, T] fp32: log of the sum of exponentials of a row's scores. Nothing of size T x T is stored.
struct AttentionArgs {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  float scale = 1;
  std::int64_t window = 0;
  float cap = 0;
  // Of the weights that scores become, on the host device alone. The weight of a key at position k of the query at t of
  // head h of sequence b stands at the global position first_element + ((b * all_heads + h) * T + t) * T + k.
  Dropout dropout;
  std::int64_t all_heads = 0;  // of all ranks
  Tensor slopes;               // fp32 [H], ALiBi; may be missing
  Tensor document_starts;      // may be missing
  Tensor qkv;
  Tensor out;  // [B*T, H * D]
  Tensor statistics;
  // Backward only:
  Tensor grad_out;
  Tensor grad_qkv;  // written
};

// Rotates pairs (i, i + R/2) of the first R elements of the query and key heads of packed rows [B*T, (H + 2*Hkv) * D]
// in place, by position * frequencies[i], and multiplies them by `magnitude`; position = row % T, or positions[row],
// which must lie in [0, T). Without frequencies: R = D and theta^(-2i/D). inverse rotates back (the backward of the
// forward).
struct RotaryArgs {
  Tensor qkv;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  float theta = 10000;
  std::span<const double> frequencies = {};  // on the host, R/2 of them
  float magnitude = 1;
  bool inverse = false;
  Tensor positions;  // int32 [B*T]; may be missing

  // R / 2.
  std::int64_t pairs() const {
    return frequencies.empty() ? head_size / 2 : static_cast<std::int64_t>(frequencies.size());
  }
};

// Attention of new tokens over the keys and values of all tokens before them, for generation. qkv [B*Q, (H + 2*Hkv)*D]
// holds Q new tokens of each sequence, packed as for AttentionArgs; token i of sequence b stands at position
// starts[b] + i. Its key and value are stored there in the caches [B, capacity, Hkv * D]; its query sees the positions
// up to its own, `window` of them at most. Tokens at or past the capacity are padding: they are not stored and their
// out is 0. FLOPs are not counted: they depend on `starts`, which lies on the device.
struct DecodeAttentionArgs {
  std::int64_t batch = 0;
  std::int64_t queries = 1;
  std::int64_t capacity = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  float scale = 1;
  std::int64_t window = 0;
  float cap = 0;
  Tensor slopes;  // fp32 [H], ALiBi; may be missing
  Tensor starts;  // int32 [B], not negative
  Tensor qkv;
  Tensor keys;
  Tensor values;
  Tensor out;  // [B*Q, H * D]
};

// FLOPs of the two attention passes, as Ops counts them and cost predicts them: causal pairs of each sequence within
// the window, whatever document_starts leaves out. Forward 4*D a pair and head, backward 10*D (scores are made again).
constexpr std::int64_t AttentionForwardFlops(std::int64_t batch, std::int64_t sequence, std::int64_t heads,
                                             std::int64_t head_size, std::int64_t window = 0) {
  return batch * heads * CausalPairs(sequence, window) * 4 * head_size;
}
constexpr std::int64_t AttentionBackwardFlops(std::int64_t batch, std::int64_t sequence, std::int64_t heads,
                                              std::int64_t head_size, std::int64_t window = 0) {
  return AttentionForwardFlops(batch, sequence, heads, head_size, window) / 2 * 5;
}

}  // namespace trireme
