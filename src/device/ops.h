// The operations of a training step, each defined once here and by the plain loops of device/cpu. Public functions
// check shapes and count FLOPs once for every back end; back ends implement the Do* twins.
//
// Conventions. All tensors are contiguous, row-major. "activation" tensors and weights have the working type (fp32 or
// bf16); sums are taken in fp32. Gradients of parameters are fp32 and are *added to*, never overwritten. Statistics are
// fp32. N tokens = B sequences of T; C hidden, H heads, D head size, F feed-forward, V vocabulary.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/accounting.h"
#include "device/tensor.h"

namespace trireme {

// Extents of matrices in fp8 are multiples of this.
inline constexpr std::int64_t kFloat8Unit = 16;

// What happens to a product before it is stored.
enum class Epilogue : std::uint8_t {
  kNone,
  kGelu,          // auxiliary = z, c = gelu(z), for z = product + bias
  kGeluGradient,  // c = z * gelu'(auxiliary); no bias
};

// c = op(a) * op(b) (+ bias) or, with accumulate, c += op(a) * op(b). Matrices: op(a) [M, K], op(b) [K, N], c [M, N].
// a and b share a type; c has it too, or is fp32. bias [N] has the type of a. accumulate excludes bias and epilogue.
// An auxiliary tensor has the shape and type of c.
// In fp8, a and b are e4m3 or e5m2 with scales as Quantize leaves them; only b is transposed, M, N and K are multiples
// of 16, at most one operand is e5m2; bias is bf16 and c bf16 or fp32.
struct MatmulArgs {
  Tensor a;
  Tensor b;
  Tensor c;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  Tensor bias;
  Epilogue epilogue = Epilogue::kNone;
  Tensor auxiliary;
  Tensor scale_a;  // fp32 [1]; given in fp8 only
  Tensor scale_b;
};

// An fp8 copy of a matrix with one scale: from[i] is about stored[i] * scale. scale is the smallest power of two with
// which no value leaves the range of the format, so that rounding does not depend on it (but for the smallest values);
// it is NaN when a value is not finite. rows and columns share a format; either may be missing.
struct QuantizeArgs {
  Tensor from;     // [R, C]
  Tensor rows;     // [R, C]
  Tensor columns;  // [C, R], the transpose
  Tensor scale;    // fp32 [1], written
};

// Element i of a tensor stands at global position first_element + i; it is dropped when
// RandomUniform(key, global position) < probability, and multiplied by 1 / (1 - probability) otherwise.
struct Dropout {
  float probability = 0;
  std::uint64_t key = 0;
  std::int64_t first_element = 0;
};

// Rows of a matrix [rows, columns] that stand in a larger one: element (r, c) has the global position
// first_element + r * stride + c, and is deviation * RandomNormal(key, global position).
struct NormalDraw {
  std::uint64_t key = 0;
  std::int64_t first_element = 0;
  std::int64_t stride = 0;
  float deviation = 1;
};

enum class NormKind : std::uint8_t { kLayer, kRms };

// sum = x + dropout(branch + bias); normed = norm(sum) * gamma + beta. [n, C] each.
// Without branch: sum is not written and x is normed. Without gamma: only the sum is computed.
// bias, beta [C] may be missing. statistics [2, n] fp32: mean (0 for kRms) and reciprocal deviation of each row.
struct ResidualNormArgs {
  Tensor x;
  Tensor branch;
  Tensor bias;
  Dropout dropout;
  Tensor sum;  // may be x itself
  NormKind kind = NormKind::kLayer;
  float epsilon = 1e-5F;
  Tensor gamma;
  Tensor beta;
  Tensor normed;
  Tensor statistics;
};

// grad_x = norm's backward of grad_normed at x (+ grad_residual when given). grad_gamma, grad_beta: fp32 [C], added to.
// grad_x may be grad_normed or grad_residual itself. normed, where given, is made again as forward made it, with gamma
// and beta; it may be grad_normed itself, unless grad_x is.
struct NormBackwardArgs {
  Tensor grad_normed;
  Tensor x;
  Tensor statistics;
  NormKind kind = NormKind::kLayer;
  Tensor gamma;
  Tensor grad_residual;
  Tensor grad_x;
  Tensor grad_gamma;
  Tensor grad_beta;
  Tensor beta;    // may be missing
  Tensor normed;  // may be missing
};

enum class ActivationKind : std::uint8_t {
  kGelu,    // tanh form; z [N, F] -> [N, F]
  kSwiGlu,  // z [N, 2F] = gate | up -> silu(gate) * up [N, F]
};

// Causal self-attention over packed rows: qkv [B*T, (H + 2*Hkv) * D] = H query heads, then Hkv key heads, then Hkv
// value heads. Query head h reads key head h / (H / Hkv). score = scale * q.k (+ slope[h] * (key position - query
// position)). document_starts [B, T] int32: position t sees keys in [document_starts[t], t]; missing: [0, t].
// statistics [B, H, T] fp32: log of the sum of exponentials of a row's scores. Nothing of size T x T is stored.
struct AttentionArgs {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  float scale = 1;
  Tensor slopes;           // fp32 [H], ALiBi; may be missing
  Tensor document_starts;  // may be missing
  Tensor qkv;
  Tensor out;  // [B*T, H * D]
  Tensor statistics;
  // Backward only:
  Tensor grad_out;
  Tensor grad_qkv;  // written
};

// Rotates pairs (i, i + D/2) of the query and key heads of packed rows [B*T, (H + 2*Hkv) * D] in place, by
// position * theta^(-2i/D); position = row % T, or positions[row], which must lie in [0, T). inverse rotates back (the
// backward of the forward).
struct RotaryArgs {
  Tensor qkv;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  float theta = 10000;
  bool inverse = false;
  Tensor positions;  // int32 [B*T]; may be missing
};

// Attention of new tokens over the keys and values of all tokens before them, for generation. qkv [B*Q, (H + 2*Hkv)*D]
// holds Q new tokens of each sequence, packed as for AttentionArgs; token i of sequence b stands at position
// starts[b] + i. Its key and value are stored there in the caches [B, capacity, Hkv * D]; its query sees the positions
// up to its own. Tokens at or past the capacity are padding: they are not stored and their out is 0.
// FLOPs are not counted: they depend on `starts`, which lies on the device.
struct DecodeAttentionArgs {
  std::int64_t batch = 0;
  std::int64_t queries = 1;
  std::int64_t capacity = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  float scale = 1;
  Tensor slopes;  // fp32 [H], ALiBi; may be missing
  Tensor starts;  // int32 [B], not negative
  Tensor qkv;
  Tensor keys;
  Tensor values;
  Tensor out;  // [B*Q, H * D]
};

// Rows [first_row, first_row + rows) of a vocabulary table. tokens int32 [n].
struct EmbeddingArgs {
  Tensor tokens;
  Tensor table;  // [rows, C]
  std::int64_t first_row = 0;
  Tensor out;  // [n, C]; zero where the token's row is not in the table
  // Backward only:
  Tensor grad_out;    // [n, C]
  Tensor grad_table;  // fp32 [rows, C], added to
};

// x[i] += table[(first_token + i) % T]; table [T, C]. Backward adds grad rows to grad_table (fp32) likewise.
struct PositionArgs {
  Tensor x;  // [n, C]; in backward the gradient, read only
  Tensor table;
  Tensor grad_table;
  std::int64_t first_token = 0;
};

// One tensor rank's part of a softmax cross-entropy over columns [first_column, first_column + valid_columns) of the
// vocabulary; logits [n, columns], columns beyond valid_columns are padding and count as minus infinity.
struct CrossEntropyArgs {
  Tensor logits;
  std::int64_t first_column = 0;
  std::int64_t valid_columns = 0;
  Tensor targets;  // int32 [n]
  // fp32 [parts, 3, n], of all ranks: local maximum, local sum of exp(logit - maximum), logit of the target (0 when it
  // is another's).
  Tensor statistics;
  // Gradient only.
  Tensor weights;   // fp32 [n]: 0 masks a token out
  float scale = 1;  // gradient = scale * weight * d(loss + z_loss * logsumexp^2)
  float z_loss = 0;
  Tensor losses;  // fp32 [n], written: -log p(target), not weighted
};

// One contiguous range of parameters. Updates are made to their fp32 masters: the weights themselves or, where these
// are bf16, the floats of which they are the upper halves and `low` the lower ones (base/split_float.h). An update is
// made with fp32 moments; those in bf16 are then rounded at random (base/stochastic_round.h), keyed by the step.
struct AdamWRange {
  Tensor weight;
  Tensor low;           // uint16; given beside bf16 weights alone
  Tensor first_moment;  // fp32 or bf16, both moments alike
  Tensor second_moment;
  Tensor gradient;  // fp32
  float weight_decay = 0;
};

struct AdamWArgs {
  float learning_rate = 0;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  std::int64_t step = 1;     // 1 for the first update
  float gradient_scale = 1;  // gradients are multiplied by it first
};

class Ops {
 public:
  virtual ~Ops() = default;

  // t = value, fp32 and int32 tensors and the bytes of any for 0.
  void Fill(const Tensor& t, float value);
  // Copies count elements; types may differ between fp32 and bf16.
  void Copy(const Tensor& to, const Tensor& from);
  // to += from, same type or from bf16 to fp32; `factor` multiplies from.
  void Add(const Tensor& to, const Tensor& from, float factor = 1);
  // t *= factor.
  void Scale(const Tensor& t, float factor);
  // Fills an fp32 matrix with normal random numbers, the same bits on every device.
  void DrawNormal(const Tensor& to, const NormalDraw& draw);

  void Matmul(const MatmulArgs& args);
  void Quantize(const QuantizeArgs& args);
  // grad_bias[c] (fp32) += sum over rows of grad_out[:, c].
  void BiasGradient(const Tensor& grad_out, const Tensor& grad_bias);

  void ResidualNormForward(const ResidualNormArgs& args);
  void NormBackward(const NormBackwardArgs& args);
  // out = in with dropped elements zeroed and the others scaled; out may be in.
  void ApplyDropout(const Tensor& out, const Tensor& in, const Dropout& dropout);

  void ActivationForward(ActivationKind kind, const Tensor& z, const Tensor& out);
  // grad_z may be z itself.
  void ActivationBackward(ActivationKind kind, const Tensor& grad_out, const Tensor& z, const Tensor& grad_z);

  void Rotary(const RotaryArgs& args);
  void AttentionForward(const AttentionArgs& args);
  void AttentionBackward(const AttentionArgs& args);
  void DecodeAttention(const DecodeAttentionArgs& args);

  void EmbeddingForward(const EmbeddingArgs& args);
  void EmbeddingBackward(const EmbeddingArgs& args);
  void AddPositions(const PositionArgs& args);
  void PositionsBackward(const PositionArgs& args);

  // Fills `own`, this rank's part of args.statistics.
  void CrossEntropyStatistics(const CrossEntropyArgs& args, const Tensor& own);
  // Fills args.losses and replaces args.logits by their gradient (padding columns get 0).
  void CrossEntropyGradient(const CrossEntropyArgs& args);
  // CrossEntropyStatistics, then `exchange`, which fills the other parts, then CrossEntropyGradient. Where there is one
  // part a device may do it in one pass, and `exchange` is not called.
  void CrossEntropy(const CrossEntropyArgs& args, const Tensor& own, const std::function<void()>& exchange);
  // Fills args.losses alone.
  void CrossEntropyLoss(const CrossEntropyArgs& args);
  // sums (fp32 [2]) = {sum of weights * losses, sum of weights}.
  void LossSum(const Tensor& losses, const Tensor& weights, const Tensor& sums);

  // sums[i] (fp32) = sum of squares of ranges[i] (fp32), summed in at least fp64 pairs; non-finite values show in it.
  void SumOfSquares(std::span<const Tensor> ranges, const Tensor& sums);
  void AdamW(std::span<const AdamWRange> ranges, const AdamWArgs& args);
  // fp32 values into upper (bf16) and lower (uint16) halves, and back: base/split_float.h.
  void Split(const Tensor& high, const Tensor& low, const Tensor& from);
  void Join(const Tensor& to, const Tensor& high, const Tensor& low);

  // to = sum (or maximum) of `sources` in their order, each of to's type and count; sums in fp32, rounded once.
  // Sources may include to.data.
  void Reduce(const Tensor& to, std::span<const void* const> sources, bool maximum = false);

  // FLOPs since construction. While recomputing is set they count as recomputed.
  const FlopCount& flops() const { return flops_; }
  // Counts the FLOPs of operations that are done without a call each: see Device::Repeat.
  void AddFlops(const FlopCount& flops) { flops_ += flops; }
  void set_recomputing(bool recomputing) { recomputing_ = recomputing; }

 protected:
  virtual void DoFill(const Tensor& t, float value) = 0;
  virtual void DoCopy(const Tensor& to, const Tensor& from) = 0;
  virtual void DoAdd(const Tensor& to, const Tensor& from, float factor) = 0;
  virtual void DoScale(const Tensor& t, float factor) = 0;
  virtual void DoDrawNormal(const Tensor& to, const NormalDraw& draw) = 0;
  virtual void DoMatmul(const MatmulArgs& args) = 0;
  virtual void DoQuantize(const QuantizeArgs& args) = 0;
  virtual void DoBiasGradient(const Tensor& grad_out, const Tensor& grad_bias) = 0;
  virtual void DoResidualNormForward(const ResidualNormArgs& args) = 0;
  virtual void DoNormBackward(const NormBackwardArgs& args) = 0;
  virtual void DoApplyDropout(const Tensor& out, const Tensor& in, const Dropout& dropout) = 0;
  virtual void DoActivationForward(ActivationKind kind, const Tensor& z, const Tensor& out) = 0;
  virtual void DoActivationBackward(ActivationKind kind, const Tensor& grad_out, const Tensor& z,
                                    const Tensor& grad_z) = 0;
  virtual void DoRotary(const RotaryArgs& args) = 0;
  virtual void DoAttentionForward(const AttentionArgs& args) = 0;
  virtual void DoAttentionBackward(const AttentionArgs& args) = 0;
  virtual void DoDecodeAttention(const DecodeAttentionArgs& args) = 0;
  virtual void DoEmbeddingForward(const EmbeddingArgs& args) = 0;
  virtual void DoEmbeddingBackward(const EmbeddingArgs& args) = 0;
  virtual void DoAddPositions(const PositionArgs& args) = 0;
  virtual void DoPositionsBackward(const PositionArgs& args) = 0;
  // Of one part.
  virtual void DoCrossEntropy(const CrossEntropyArgs& args);
  virtual void DoCrossEntropyStatistics(const CrossEntropyArgs& args, const Tensor& own) = 0;
  virtual void DoCrossEntropyGradient(const CrossEntropyArgs& args) = 0;
  virtual void DoCrossEntropyLoss(const CrossEntropyArgs& args) = 0;
  virtual void DoLossSum(const Tensor& losses, const Tensor& weights, const Tensor& sums) = 0;
  virtual void DoSumOfSquares(std::span<const Tensor> ranges, const Tensor& sums) = 0;
  virtual void DoAdamW(std::span<const AdamWRange> ranges, const AdamWArgs& args) = 0;
  virtual void DoSplit(const Tensor& high, const Tensor& low, const Tensor& from) = 0;
  virtual void DoJoin(const Tensor& to, const Tensor& high, const Tensor& low) = 0;
  virtual void DoReduce(const Tensor& to, std::span<const void* const> sources, bool maximum) = 0;

 private:
  void Count(std::int64_t matmul, std::int64_t attention);

  FlopCount flops_;
  bool recomputing_ = false;
};

// FLOPs of the two attention passes, as Ops counts them and cost predicts them: causal pairs T(T+1)/2 of each sequence,
// whatever document_starts leaves out. Forward 4*D a pair and head, backward 10*D (scores are made again).
constexpr std::int64_t AttentionForwardFlops(std::int64_t batch, std::int64_t sequence, std::int64_t heads,
                                             std::int64_t head_size) {
  return batch * heads * (sequence * (sequence + 1) / 2) * 4 * head_size;
}
constexpr std::int64_t AttentionBackwardFlops(std::int64_t batch, std::int64_t sequence, std::int64_t heads,
                                              std::int64_t head_size) {
  return AttentionForwardFlops(batch, sequence, heads, head_size) / 2 * 5;
}

}  // namespace trireme
