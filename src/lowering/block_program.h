// A block lowered for one rank: the steps of its forward and backward in order, the buffers that they read and write,
// and where each buffer lies. Every step is one call of an operation or one collective. nn and infer execute the
// steps, cost adds up their FLOPs and bytes, and the planner adds up their seconds: they cannot differ.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <variant>
#include <vector>

#include "lowering/local_sizes.h"
#include "lowering/memory_plan.h"
#include "model/block_description.h"
#include "ops/matmul.h"

namespace trireme {

// A buffer of the program by its number; -1 is none. A parameter by its number among those of the block.
using BufferId = int;
inline constexpr int kNoId = -1;

// sum = x + dropout(branch + branch_bias).
struct SumStep {
  BufferId x = kNoId;
  BufferId branch = kNoId;
  BufferId sum = kNoId;
  int branch_bias = kNoId;
  int site = kNoId;  // of dropout
};

// normed = norm(x). With a branch, the sum before it in the same pass: sum = x + dropout(branch + branch_bias), normed
// = norm(sum).
// `largest` of this and other steps: where the largest magnitude of a result is noted for the QuantizeStep that reads
// it.
struct NormStep {
  BufferId x = kNoId;
  BufferId branch = kNoId;
  BufferId sum = kNoId;
  BufferId normed = kNoId;
  BufferId statistics = kNoId;
  int gain = kNoId;
  int bias = kNoId;
  int branch_bias = kNoId;
  int site = kNoId;          // of dropout
  BufferId largest = kNoId;  // of normed
};

struct NormBackwardStep {
  BufferId grad_normed = kNoId;
  BufferId x = kNoId;
  BufferId statistics = kNoId;
  BufferId grad_residual = kNoId;
  BufferId grad_x = kNoId;
  BufferId normed = kNoId;  // the norm's output made again
  BufferId gradients = kNoId;
  int norm = 0;  // which norm: rows 2 * norm and 2 * norm + 1 of `gradients`
  int gain = kNoId;
  int bias = kNoId;
  BufferId largest = kNoId;  // of grad_x
};

// Into the tensor region under sequence parallelism: all-gather. With `in_place` `from` is this rank's rows of `to`.
struct EnterStep {
  BufferId from = kNoId;
  BufferId to = kNoId;
  bool in_place = false;
};

// Out of the tensor region: all-reduce in place, or reduce-scatter to `to` under sequence parallelism.
struct LeaveStep {
  BufferId from = kNoId;
  BufferId to = kNoId;
};

enum class ProductKind : std::uint8_t {
  kForward,         // c = a * weight^T + bias
  kInputGradient,   // c = a * weight
  kWeightGradient,  // gradient of weight += a^T * b
};

struct ProductStep {
  ProductKind kind = ProductKind::kForward;
  BufferId a = kNoId;
  BufferId b = kNoId;  // kWeightGradient: the layer's input; otherwise the fp8 copy of the weight, or none
  BufferId c = kNoId;
  int weight = kNoId;
  int bias = kNoId;
  BlockLinear linear = BlockLinear::kQkv;  // the layer whose product, or whose adapter's, it is
  Epilogue epilogue = Epilogue::kNone;
  BufferId auxiliary = kNoId;
  BufferId scale_a = kNoId;  // in fp8
  BufferId scale_b = kNoId;
  BufferId largest = kNoId;  // of c
  bool added = false;        // to what c holds; gradients of weights always are
  float scale = 1;           // of c, where nothing is added to
  // c is a copy that every tensor rank makes from equal operands: its bits must be equal (MatmulArgs::equal_on_ranks).
  bool copied = false;
  std::int64_t rows = 0;  // c is [rows, columns], summed over depth
  std::int64_t columns = 0;
  std::int64_t depth = 0;
};

// The fp8 copy of a buffer, or of a weight.
struct QuantizeStep {
  BufferId from = kNoId;
  int weight = kNoId;
  BufferId rows = kNoId;
  BufferId columns = kNoId;  // the transpose
  BufferId scale = kNoId;
  BufferId largest = kNoId;  // noted by the step that made `from`; none: it is looked for
  int bias = kNoId;          // whose gradient the sums of the columns are added to, or none
  bool once = false;         // by the first micro batch of a step: the copies serve all of them
  BufferId guess = kNoId;    // of the scale, kept from one execution to the next; where `largest` is none
};

struct HeadNormStep {
  BufferId x = kNoId;
  BufferId out = kNoId;
  BufferId sums = kNoId;
  int query_gain = kNoId;
  int key_gain = kNoId;
  bool together = false;
  bool again = false;      // from sums that forward left
  bool exchanged = false;  // sums are added up over the tensor group
};

struct HeadNormBackwardStep {
  BufferId grad = kNoId;  // of the output, replaced by that of the input
  BufferId x = kNoId;
  BufferId sums = kNoId;
  BufferId products = kNoId;
  BufferId query_gradient = kNoId;  // of the gains
  BufferId key_gradient = kNoId;
  int query_gain = kNoId;
  int key_gain = kNoId;
  bool together = false;
  bool exchanged = false;
};

struct RotaryStep {
  BufferId qkv = kNoId;  // in place
  bool inverse = false;
};

// Keys and values of this rank's tokens, out of packed rows, and those of all context ranks: all-gather. Rows of kv are
// in the order of ranks.
struct GatherKeysStep {
  BufferId qkv = kNoId;
  BufferId kv = kNoId;
};

// The backward of GatherKeysStep: reduce-scatter of the ranks' gradients, and this rank's into packed rows. grad_kv is
// overwritten.
struct ReduceKeysStep {
  BufferId grad_kv = kNoId;
  BufferId grad_qkv = kNoId;
};

// Between this rank's tokens of all heads and all tokens, in their order, of this context rank's heads: all-to-all.
// `staging` is as large as `from` and `to`.
struct SwapHeadsStep {
  BufferId from = kNoId;
  BufferId to = kNoId;
  BufferId staging = kNoId;
  bool to_heads = true;  // `to` has all tokens; false: `from` has
  bool packed = false;   // rows of query, key and value heads; false: of query heads alone
};

// Attention over the keys of one context rank after another, which pass around the group: RingPlan says what lies in
// `scratch`.
struct RingAttentionStep {
  BufferId qkv = kNoId;
  BufferId out = kNoId;
  BufferId statistics = kNoId;
  BufferId scratch = kNoId;
};

struct RingAttentionBackwardStep {
  BufferId qkv = kNoId;
  BufferId out = kNoId;
  BufferId statistics = kNoId;
  BufferId grad_out = kNoId;
  BufferId grad_qkv = kNoId;
  BufferId scratch = kNoId;
};

struct AttentionStep {
  BufferId qkv = kNoId;
  BufferId out = kNoId;
  BufferId statistics = kNoId;
  BufferId kv = kNoId;       // of all context ranks; none: keys and values lie in qkv
  BufferId weights = kNoId;  // of plain attention: see ops/attention.h
  BufferId scores = kNoId;   // likewise, with dropout
};

struct AttentionBackwardStep {
  BufferId qkv = kNoId;
  BufferId out = kNoId;
  BufferId statistics = kNoId;
  BufferId grad_out = kNoId;
  BufferId grad_qkv = kNoId;
  BufferId kv = kNoId;
  BufferId grad_kv = kNoId;
  BufferId weights = kNoId;
  BufferId scores = kNoId;
};

struct ActivationStep {
  BufferId from = kNoId;
  BufferId to = kNoId;  // may be `from`, unless the activation is gated
  BufferId largest = kNoId;
};

struct ActivationBackwardStep {
  BufferId grad_out = kNoId;
  BufferId from = kNoId;
  BufferId grad_from = kNoId;
  BufferId largest = kNoId;
};

// to = from with the mask of a dropout site; a copy where nothing is dropped.
struct DropoutStep {
  BufferId from = kNoId;
  BufferId to = kNoId;
  int site = kNoId;
  bool own_rows = false;  // writes this rank's rows of `to`, a tensor of all tokens
};

// Gradient of a bias += sum of the rows.
struct BiasGradientStep {
  BufferId rows = kNoId;
  int bias = kNoId;
  bool own_rows = false;  // this rank's rows alone
};

struct ClearStep {
  BufferId buffer = kNoId;
};

// Gradient of a parameter += a row of a buffer.
struct AddGradientStep {
  BufferId from = kNoId;
  int row = 0;
  int parameter = kNoId;
};

using BlockWork =
    std::variant<SumStep, NormStep, NormBackwardStep, EnterStep, LeaveStep, ProductStep, QuantizeStep, HeadNormStep,
                 HeadNormBackwardStep, RotaryStep, GatherKeysStep, ReduceKeysStep, SwapHeadsStep, RingAttentionStep,
                 RingAttentionBackwardStep, AttentionStep, AttentionBackwardStep, ActivationStep,
                 ActivationBackwardStep, DropoutStep, BiasGradientStep, ClearStep, AddGradientStep>;

struct BlockStep {
  BlockWork work;
  bool recomputed = false;   // backward makes again what forward made
  bool weight_part = false;  // of backward: makes gradients of parameters
};

// Buffers 0 to 3 of every program; the caller gives all but the input.
inline constexpr BufferId kBlockInput = 0;  // the first of the kept ones
inline constexpr BufferId kBlockOutput = 1;
inline constexpr BufferId kGradOutput = 2;
inline constexpr BufferId kGradInput = 3;

struct BlockProgram {
  std::vector<Place> buffers;
  std::vector<BlockStep> forward;
  // Backward, both parts; or the input part alone where `in_parts`.
  std::vector<BlockStep> backward;
  std::vector<BlockStep> backward_weight;
  bool in_parts = false;
  int norms = 0;

  std::int64_t kept_bytes = 0;
  std::int64_t scratch_bytes = 0;
  // Of what is not a micro batch's: fp8 copies of weights (LocalSizes::float8_weights) and guesses of scales.
  std::int64_t weight_bytes = 0;
};

enum class BlockPurpose : std::uint8_t { kTraining, kInference };

// Steps and buffers, without their places: for costs.
BlockProgram LowerBlock(const BlockDescription& block, const LocalSizes& sizes,
                        BlockPurpose purpose = BlockPurpose::kTraining);
// Gives every buffer its place. What backward reads of forward, and the weight part of the input part, is kept; other
// buffers lie in scratch and share it when they are not needed at the same time.
void PlaceBuffers(BlockProgram& program);
// Both.
BlockProgram PlanBlock(const ModelConfig& model, const LocalSizes& sizes,
                       BlockPurpose purpose = BlockPurpose::kTraining);

// Programs for training of one model that were asked for: a search comes back to the same few hundred blocks for every
// stage of ZeRO and every schedule. Another model, or more of them, starts it anew. Not for concurrent use: each thread
// has its own.
class BlockProgramCache {
 public:
  std::shared_ptr<const BlockProgram> ProgramOf(const ModelConfig& model, const LocalSizes& sizes);

 private:
  struct Entry {
    LocalSizes sizes;
    std::shared_ptr<const BlockProgram> program;
  };
  std::optional<ModelConfig> model_;
  std::unordered_multimap<std::uint64_t, Entry> entries_;  // by what layouts of a model differ in
};

}  // namespace trireme
