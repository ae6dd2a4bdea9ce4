// A module (embedding, block or head) lowered for one rank: the steps of its forward and backward in order, the buffers
// that they read and write, and where each buffer lies. nn and infer execute the steps, cost adds up their FLOPs and
// bytes, and the planner adds up their seconds: they cannot differ.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/accounting.h"
#include "lowering/local_sizes.h"
#include "lowering/memory_plan.h"
#include "model/block_description.h"
#include "model/parameter_table.h"
#include "ops/matmul.h"
#include "ops/operations.h"

namespace trireme {

// A buffer of the program by its number; kNoId is none. A parameter by its number among those of the block.
using BufferId = int;

// What a micro batch brings along.
enum class BatchTensor : std::uint8_t { kTokens, kTargets, kWeights, kPositions, kLossSums };

// Steps that are no operation of ops/operations.h.

// sum = x + dropout(branch + branch_bias).
struct SumStep {
  static constexpr std::string_view kName = "sum";
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
  static constexpr std::string_view kName = "norm";
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
  static constexpr std::string_view kName = "norm_backward";
  BufferId grad_normed = kNoId;
  BufferId x = kNoId;
  BufferId statistics = kNoId;
  BufferId grad_residual = kNoId;
  BufferId grad_x = kNoId;
  BufferId normed = kNoId;     // the norm's output made again
  BufferId gradients = kNoId;  // of the parameters; none: their own gradients are added to
  int norm = 0;                // which norm: rows 2 * norm and 2 * norm + 1 of `gradients`
  int gain = kNoId;
  int bias = kNoId;
  BufferId largest = kNoId;  // of grad_x
};

enum class ProgramGroup : std::uint8_t {
  kTensor,   // the tensor axis
  kContext,  // the context axis
  kHeads,    // of the context axis, the ranks that Ulysses divides heads among
};

// One collective. Where `from` and `to` are one buffer, an all-gather reads this rank's part of it and a reduce-scatter
// writes that part.
struct CollectiveStep {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  ProgramGroup group = ProgramGroup::kTensor;
  BufferId from = kNoId;
  BufferId to = kNoId;
};

// The borders of the region in which activations are cut over the tensor group; the backward of Enter is Leave and the
// other way round: Megatron's conjugate pairs, plain and sequence-parallel.
//
//                 plain                          sequence-parallel
//   Enter         the tensor itself              all-gather of the members' tokens
//   Leave         all-reduce in place            reduce-scatter to this member's tokens
inline CollectiveStep EnterRegion(BufferId from, BufferId to) {
  return {.kind = CollectiveKind::kAllGather, .from = from, .to = to};
}
inline CollectiveStep LeaveRegion(const LocalSizes& sizes, BufferId from, BufferId to) {
  return {.kind = sizes.sequence_parallel ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce,
          .from = from,
          .to = to};
}

enum class ProductKind : std::uint8_t {
  kForward,         // c = a * weight^T + bias
  kInputGradient,   // c = a * weight
  kWeightGradient,  // gradient of weight += a^T * b
};

struct ProductStep {
  static constexpr std::string_view kName = "matmul";
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
  // c is a copy that every tensor rank makes from equal operands: its bits must be equal (MatmulArgs::equal_on_ranks).
  bool copied = false;
  std::int64_t rows = 0;  // c is [rows, columns], summed over depth
  std::int64_t columns = 0;
  std::int64_t depth = 0;
};

// Products with one matrix for each expert: see GroupedMatmulArgs.
struct GroupedProductStep {
  static constexpr std::string_view kName = "grouped_matmul";
  GroupedProduct product = GroupedProduct::kForward;
  BufferId a = kNoId;
  BufferId b = kNoId;  // kWeightGradient: the layer's input
  BufferId c = kNoId;
  BufferId offsets = kNoId;
  int weight = kNoId;  // [experts, outputs, inputs]
  BlockLinear linear = BlockLinear::kExpertIn;
  std::int64_t rows = 0;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  std::int64_t experts = 0;
};

// The fp8 copy of a buffer, or of a weight.
struct QuantizeStep {
  static constexpr std::string_view kName = "quantize";
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
  static constexpr std::string_view kName = "head_norm";
  BufferId x = kNoId;
  BufferId out = kNoId;  // none: the step fills `sums`, those of this rank's heads
  BufferId sums = kNoId;
  int query_gain = kNoId;
  int key_gain = kNoId;
  bool together = false;
};

struct HeadNormBackwardStep {
  static constexpr std::string_view kName = "head_norm_backward";
  BufferId grad = kNoId;  // of the output, replaced by that of the input
  BufferId x = kNoId;
  BufferId sums = kNoId;
  BufferId products = kNoId;
  BufferId query_gradient = kNoId;  // of the gains; none: the step fills `products`
  BufferId key_gradient = kNoId;
  int query_gain = kNoId;
  int key_gain = kNoId;
  bool together = false;
};

// Keys and values, or gradients of them, of this rank's tokens: from packed rows to its rows of all context ranks', or
// with `back` the other way. Rows of kv are in the order of ranks.
struct CopyKeysStep {
  static constexpr std::string_view kName = "copy_keys";
  BufferId qkv = kNoId;
  BufferId kv = kNoId;
  bool back = false;
};

// What Ulysses copies before and after its all-to-all, which swaps parts of the context group's heads.
enum class HeadOrder : std::uint8_t {
  kParts,      // between this rank's tokens of all heads and a part for each rank's heads
  kSequences,  // between all tokens of some heads by rank and by sequence
};
struct CopyHeadsStep {
  static constexpr std::string_view kName = "copy_heads";
  HeadOrder order = HeadOrder::kParts;
  BufferId from = kNoId;
  BufferId to = kNoId;
  bool back = false;    // from parts, or from the order of sequences
  bool packed = false;  // rows of query, key and value heads; false: of query heads alone
};

// Attention over the keys of one context rank after another, which pass around the group: RingPlan says what lies in
// `scratch`.
struct RingAttentionStep {
  static constexpr std::string_view kName = "ring_attention";
  BufferId qkv = kNoId;
  BufferId out = kNoId;
  BufferId statistics = kNoId;
  BufferId scratch = kNoId;
};

struct RingAttentionBackwardStep {
  static constexpr std::string_view kName = "ring_attention_backward";
  BufferId qkv = kNoId;
  BufferId out = kNoId;
  BufferId statistics = kNoId;
  BufferId grad_out = kNoId;
  BufferId grad_qkv = kNoId;
  BufferId scratch = kNoId;
};

struct AttentionStep {
  static constexpr std::string_view kName = "attention";
  BufferId qkv = kNoId;
  BufferId out = kNoId;
  BufferId statistics = kNoId;
  BufferId kv = kNoId;       // of all context ranks; none: keys and values lie in qkv
  BufferId weights = kNoId;  // of plain attention: see ops/attention.h
  BufferId scores = kNoId;   // likewise, with dropout
};

struct AttentionBackwardStep {
  static constexpr std::string_view kName = "attention_backward";
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

// to = from with the mask of a dropout site; a copy where nothing is dropped.
struct DropoutStep {
  static constexpr std::string_view kName = "dropout";
  BufferId from = kNoId;
  BufferId to = kNoId;
  int site = kNoId;
  bool own_rows = false;  // writes this rank's rows of `to`, a tensor of all tokens
};

// Gradient of a bias += sum of the rows.
struct BiasGradientStep {
  static constexpr std::string_view kName = "bias_gradient";
  BufferId rows = kNoId;
  int bias = kNoId;
  bool own_rows = false;  // this rank's rows alone
};

struct ClearStep {
  static constexpr std::string_view kName = "clear";
  BufferId buffer = kNoId;
};

// Gradient of a parameter += a row of a buffer.
struct AddGradientStep {
  static constexpr std::string_view kName = "add_gradient";
  BufferId from = kNoId;
  int row = 0;
  int parameter = kNoId;
};

// out = rows of the vocabulary table, cut over the tensor group; 0 where a token's row is another rank's.
struct LookupStep {
  static constexpr std::string_view kName = "lookup";
  BatchTensor tokens = BatchTensor::kTokens;
  int table = kNoId;
  BufferId out = kNoId;
};

// Gradient of the table += rows of grad_out.
struct LookupBackwardStep {
  static constexpr std::string_view kName = "lookup_backward";
  BatchTensor tokens = BatchTensor::kTokens;
  BufferId grad_out = kNoId;
  int table = kNoId;
};

struct ScaleStep {
  static constexpr std::string_view kName = "scale";
  BufferId x = kNoId;
  float factor = 1;
};

struct CopyStep {
  static constexpr std::string_view kName = "copy";
  BufferId from = kNoId;
  BufferId to = kNoId;
};

// Logits are shown to MicroBatch::logits, if it is given.
struct ShowLogitsStep {
  static constexpr std::string_view kName = "show_logits";
  BufferId logits = kNoId;
};

// This tensor rank's part of `statistics`, which has a part for each: see CrossEntropyArgs.
struct LossStatisticsStep {
  static constexpr std::string_view kName = "loss_statistics";
  BufferId logits = kNoId;
  BufferId statistics = kNoId;
};

// Losses from the statistics of all parts. With `gradient` the logits become their gradient; with one tensor rank that
// step makes the statistics itself.
struct CrossEntropyStep {
  static constexpr std::string_view kName = "cross_entropy";
  BufferId logits = kNoId;
  BufferId statistics = kNoId;
  BufferId losses = kNoId;
  bool gradient = false;
};

// The micro batch's sums of weighted losses and of weights.
struct LossSumStep {
  static constexpr std::string_view kName = "loss_sum";
  BufferId losses = kNoId;
};

#define TRIREME_STEP(Op) Op<TensorId>,
using StepWork =
    std::variant<TRIREME_OPERATIONS(TRIREME_STEP) SumStep, NormStep, NormBackwardStep, CollectiveStep, ProductStep,
                 GroupedProductStep, QuantizeStep, HeadNormStep, HeadNormBackwardStep, CopyKeysStep, CopyHeadsStep,
                 RingAttentionStep, RingAttentionBackwardStep, AttentionStep, AttentionBackwardStep, DropoutStep,
                 BiasGradientStep, ClearStep, AddGradientStep, LookupStep, LookupBackwardStep, ScaleStep, CopyStep,
                 ShowLogitsStep, LossStatisticsStep, CrossEntropyStep, LossSumStep>;
#undef TRIREME_STEP

struct ProgramStep {
  StepWork work;
  bool recomputed = false;   // backward makes again what forward made
  bool weight_part = false;  // of backward: makes gradients of parameters
  // Consecutive steps with it run once per chunk of rows: an operand of `rows` rows stands for the chunk's rows, one of
  // `chunk` rows for its first ones (see ModuleProgram).
  bool chunked = false;
};

// Buffers 0 to 3 of every program; the caller gives all but the input.
inline constexpr BufferId kModuleInput = 0;  // the first of the kept ones
inline constexpr BufferId kModuleOutput = 1;
inline constexpr BufferId kGradOutput = 2;
inline constexpr BufferId kGradInput = 3;

struct ModuleProgram {
  std::vector<Place> buffers;
  std::vector<ProgramStep> forward;
  std::vector<ProgramStep> evaluation;  // forward without gradients; empty: as `forward`
  // Both parts of backward; or the input part alone where `in_parts`.
  std::vector<ProgramStep> backward;
  std::vector<ProgramStep> backward_weight;
  bool in_parts = false;
  int norms = 0;
  BufferId input_gradient = kGradInput;  // where backward leaves it; none of an embedding
  int tied = kNoId;                      // the parameter that is the tied token table
  BufferId expert_load = kNoId;          // fp32: rows of each expert in this step, of a block that is trained
  std::int64_t rows = 0;                 // of chunked steps
  std::int64_t chunk = 0;

  const std::vector<ProgramStep>& Evaluation() const { return evaluation.empty() ? forward : evaluation; }

  std::int64_t kept_bytes = 0;
  std::int64_t scratch_bytes = 0;
  // Bytes of what is not a micro batch's: fp8 copies of weights (LocalSizes::float8_weights), guesses of scales, loads
  // of experts.
  std::int64_t weight_bytes = 0;
};

enum class ProgramPurpose : std::uint8_t { kTraining, kInference };

// Token lookup, positions, optional norm, dropout.
ModuleProgram PlanEmbedding(const ModelConfig& model, const LocalSizes& sizes);
enum EmbeddingBuffer : BufferId {
  kEmbeddingSum = kGradInput + 1,  // before the norm; absent without one
  kEmbeddingStatistics,
  kEmbeddingFound,     // under sequence parallelism
  kEmbeddingGathered,  // likewise
};

// Final norm, logits and loss for `chunk` tokens at a time. In training forward computes gradients at once, so that the
// logits of a chunk exist one time only; the input's place then holds the input's gradient.
ModuleProgram PlanHead(const ModelConfig& model, const LocalSizes& sizes, std::int64_t chunk);
enum HeadBuffer : BufferId {
  kHeadStatistics = kGradInput + 1,
  kHeadNormed,
  kHeadGathered,  // under sequence parallelism
  kHeadLogits,
  kHeadLossStatistics,
  kHeadLosses,
  kHeadGradInside,
  kHeadGradNormed,
  kHeadUnusedGradients,
  kHeadAllLogits,  // of all tensor ranks, in inference
  kHeadBuffers,
};
// The head in inference; the caller gives all buffers. forward: the final norm; evaluation: losses of the rows that it
// normed.
ModuleProgram LowerInferenceHead(const ModelConfig& model, const LocalSizes& sizes, std::int64_t chunk);
// Its logits: of kHeadNormed, this rank's part of kHeadAllLogits in kHeadLogits.
ModuleProgram LowerInferenceLogits(const ModelConfig& model, const LocalSizes& sizes);

// Steps and buffers of a block, without their places: for costs.
ModuleProgram LowerBlock(const BlockDescription& block, const LocalSizes& sizes,
                         ProgramPurpose purpose = ProgramPurpose::kTraining);
// Gives every buffer its place. What backward reads of forward, and the weight part of the input part, is kept; other
// buffers lie in scratch and share it when they are not needed at the same time.
void PlaceBuffers(ModuleProgram& program);
// Both.
ModuleProgram PlanBlock(const ModelConfig& model, const LocalSizes& sizes,
                        ProgramPurpose purpose = ProgramPurpose::kTraining);

// The table's rows of a module's parameters, in the order in which its program numbers them.
std::vector<int> RowsOf(const ParameterTable& table, const ModuleProgram& program, std::int64_t module);

// Programs for training of one model that were asked for: a search comes back to the same few hundred blocks for every
// stage of ZeRO and every schedule. Another model, or more of them, starts it anew. Not for concurrent use: each thread
// has its own.
class BlockProgramCache {
 public:
  std::shared_ptr<const ModuleProgram> ProgramOf(const ModelConfig& model, const LocalSizes& sizes);

 private:
  struct Entry {
    LocalSizes sizes;
    std::shared_ptr<const ModuleProgram> program;
  };
  std::optional<ModelConfig> model_;
  std::unordered_multimap<std::uint64_t, Entry> entries_;  // by what layouts of a model differ in
};

}  // namespace trireme
