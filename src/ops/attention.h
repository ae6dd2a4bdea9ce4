// Causal self-attention, and attention over cached keys and values for generation.
#pragma once

#include <cstdint>
#include <span>

#include "base/causal_pairs.h"
#include "ops/random.h"
#include "ops/tensor.h"

namespace trireme {

// Causal self-attention over packed rows: qkv [B*T, (H + 2*Hkv) * D] = H query heads, then Hkv key heads, then Hkv
// value heads. Query head h reads key head h / (H / Hkv). score = scale * q.k (+ slope[h] * (key position - query
// position)); with a cap above 0 it is then cap * tanh(score / cap). document_starts [B, T] int32: position t sees keys
// in [document_starts[t], t]; missing: [0, t]. With a window above 0 it sees no more than `window` of them, the last
// ones. statistics [B, H, T] fp32: log of the sum of exponentials of a row's scores. Nothing of size T x T is stored,
// unless `weights` is given (plain attention): forward then writes what the scores of every query and key become, 0
// where the mask hides a key, and backward reads them instead of the queries' products with keys. It counts FLOPs of
// all pairs, as its products on a GPU compute them; the CPU leaves out tiles that the mask hides.
//
// With `kv` the T rows of a sequence are only some of its tokens, in query_chunks.size() chunks of equal length L:
// chunk i holds positions query_chunks[i] and on; its keys and values in qkv are not read. Keys and values lie in kv,
// whose rows hold Hkv key heads, then Hkv value heads, also in chunks of L: chunk j holds positions
// key_chunks[j].position and on, of sequence b in the L rows from key_chunks[j].row + b * T on. document_starts are
// positions. Forward is over these keys alone: where a query sees none of them, out is 0 and its statistics minus
// infinity. Backward takes out and statistics of all keys, of any call or MergeAttention, and fills what these keys
// add: the query heads of grad_qkv, and grad_kv.
struct KeyChunk {
  std::int64_t position = 0;  // ascending
  std::int64_t row = 0;
};
struct AttentionArgs {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  float scale = 1;
  std::int64_t window = 0;
  float cap = 0;
  // Dropout of the weights that scores become; on a GPU in plain attention alone. The weight of the key at position k
  // for the query at position t of head h of sequence b is element first_element + ((b * all_heads + h) * S + t) * S +
  // k, where S = all_positions.
  Dropout dropout;
  std::int64_t all_heads = 0;      // of all ranks
  std::int64_t all_positions = 0;  // of a whole sequence
  Tensor slopes;                   // fp32 [H], ALiBi; may be missing
  Tensor document_starts;          // may be missing
  Tensor qkv;
  Tensor out;  // [B*T, H * D]
  Tensor statistics;
  std::span<const std::int64_t> query_chunks = {};  // on the host; with kv only
  std::span<const KeyChunk> key_chunks = {};        // likewise
  Tensor kv = {};                                   // [B * keys, 2 * Hkv * D]; may be missing
  Tensor weights = {};                              // [B, H, T, keys()], before dropout; may be missing
  Tensor scores = {};  // overwritten, as large as weights, which it goes with: in backward, and where there is dropout
  // Backward only:
  Tensor grad_out;
  Tensor grad_qkv;      // written
  Tensor grad_kv = {};  // written; with kv only

  // Tokens of a chunk, and keys of a sequence.
  std::int64_t chunk() const {
    return kv.given() ? sequence / static_cast<std::int64_t>(query_chunks.size()) : sequence;
  }
  std::int64_t keys() const { return kv.given() ? static_cast<std::int64_t>(key_chunks.size()) * chunk() : sequence; }
  // Where query i of a sequence stands in it.
  std::int64_t Position(std::int64_t i) const {
    return kv.given() ? query_chunks[static_cast<std::size_t>(i / chunk())] + i % chunk() : i;
  }
};

// Attention over two sets of keys out of that over each: statistics become the log of the sum of both sums, out the
// average by their shares. fp32 `out` and `statistics` hold one and get the result; part_out has the working type.
struct AttentionMerge {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t head_size = 0;
  Tensor out;         // fp32 [B*T, H * D]
  Tensor statistics;  // fp32 [B, H, T]
  Tensor part_out;
  Tensor part_statistics;
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
// Those of a call, whose queries may be chunks of their sequences.
std::int64_t AttentionForwardFlops(const AttentionArgs& args);

}  // namespace trireme
