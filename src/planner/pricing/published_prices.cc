#include "planner/pricing/published_prices.h"

#include <algorithm>
#include <cmath>

#include "base/shape.h"
#include "planner/pricing/block_time.h"
#include "planner/pricing/expert_time.h"
#include "planner/pricing/update_time.h"

namespace trireme {
namespace {

// Keys and values of a sequence that is cut over ranks: each passes them on around a ring while it works on its own.
double ContextSeconds(const PlanPoint& point, const LocalSizes& s) {
  if (point.config.layout.context <= 1) {
    return 0;
  }
  const double bytes = static_cast<double>(s.tokens * point.config.layout.context * 2 * s.kv_heads * s.head_size) *
                       static_cast<double>(s.element());
  const LinkShares shares = InnerShares(point);
  return CollectiveSeconds(CollectiveKind::kAllGather, bytes, 1, PlaceContext(point.cluster, point.config.layout),
                           point.cluster, shares);
}

// Element-wise bytes of one pass, by the stack's account.
double PassBytes(const PlanPoint& point, const LocalSizes& s) {
  const double element = static_cast<double>(s.element()) / 2;
  const double outside = static_cast<double>(s.outside) * static_cast<double>(s.hidden);
  const double inside = static_cast<double>(s.tokens) * static_cast<double>(s.ffn_in + s.qkv) / 7;
  return element * (point.stack.time.outside_bytes * outside + point.stack.time.inside_bytes * inside);
}

// Tokens of a micro batch that a rank works on.
double TokensOf(const PlanPoint& point) {
  return static_cast<double>(point.config.layout.micro_batch) * static_cast<double>(point.config.model.sequence) /
         point.config.layout.context;
}

// Five bytes for each score of unfused attention.
double ScoreBytes(const PlanPoint& point) {
  return point.flash()
             ? 0
             : 5.0 * static_cast<double>(point.config.model.heads) * static_cast<double>(point.config.model.sequence) *
                   TokensOf(point) / point.config.layout.tensor;
}

// Bytes of queries, keys, values and of what attention leaves, for a token.
double AttentionBytes(const ModelConfig& model) {
  const auto wide = static_cast<double>(model.heads * model.head_size());
  if (!model.latent.any()) {
    return 4 * wide + 4 * static_cast<double>(model.kv_heads * model.head_size());
  }
  const LatentAttention& latent = model.latent;
  const auto positions = static_cast<double>(model.heads * latent.rope);
  return 2 * (4 * wide + 2 * positions) + 4 * static_cast<double>(latent.query_rank + latent.kv_rank);
}

// Bytes that the experts of a layer keep: rows as they came, both halves of the gated product and their product, and
// of each token its scores and what it chose.
double ExpertBytes(const PlanPoint& point) {
  const LocalSizes s = point.prices.Sizes(point);
  const ExpertShare share = ShareOfExperts(point, s);
  const double gated = IsGated(point.config.model.feed_forward) ? point.stack.memory.gated_bytes : 4;
  const double row = 2 * static_cast<double>(s.hidden) + gated * static_cast<double>(share.width);
  return share.rows * share.imbalance * row + share.leaving * 12 +
         share.leaving / static_cast<double>(s.chosen) * static_cast<double>(s.experts) * 8;
}

// Bytes of one layer's tensors that autograd keeps for a micro batch (Korthikanti et al. 2022 for a GPT: 34 a token and
// hidden element, of which 24 are cut by the tensor axis): both norms' inputs and outputs, queries, keys, values, what
// attention leaves, and the feed-forward's.
double LayerBytes(const PlanPoint& point, bool sparse) {
  const ModelConfig& model = point.config.model;
  const MemoryTraits& traits = point.stack.memory;
  const double hidden = static_cast<double>(model.hidden);
  const auto width = static_cast<double>(sparse ? model.experts.shared_ffn : model.ffn);
  const bool gated = IsGated(model.feed_forward);
  double outside = (8 + traits.mask_bytes) * hidden;
  double inside = AttentionBytes(model) + (gated ? traits.gated_bytes : 4) * width;
  if (traits.float8_inputs && point.products() == ProductFormat::kFloat8) {
    outside -= 2 * hidden;     // both norms' outputs
    inside += hidden - width;  // attention's output, which attention itself keeps too; the second product's input
  }
  return TokensOf(point) * (outside / (point.config.layout.sequence_parallel ? point.config.layout.tensor : 1) +
                            inside / point.config.layout.tensor) +
         ScoreBytes(point) + (sparse ? ExpertBytes(point) : 0);
}

// A layer's bytes summed over blocks of both kinds.
double LayersBytes(const PlanPoint& point, double dense, double sparse) {
  return (dense > 0 ? dense * LayerBytes(point, false) : 0) + (sparse > 0 ? sparse * LayerBytes(point, true) : 0);
}

// A rank's parameters of the experts of a layer.
double ExpertsOfRank(const PlanPoint& point, const ModelAccount& account) {
  return account.expert_parameters() / (point.config.layout.expert * point.config.layout.expert_width_ranks());
}

// What an allocator that rounds up to a power of two adds to a buffer.
double RoundingOf(double bytes) { return bytes > 0 ? std::exp2(std::ceil(std::log2(bytes))) - bytes : 0; }

StageMemory PublishedMemory(const PlanPoint& point, const ModelAccount& account,
                            const std::vector<std::int64_t>& blocks, int stage, PipelineClock& clock) {
  const ParallelLayout& layout = point.config.layout;
  const MemoryTraits& traits = point.stack.memory;
  const double data = point.shards();
  double parameters = 0;
  double experts = 0;      // of them
  double layers_here = 0;  // of one micro batch
  double dense_in_flight = 0;
  double sparse_in_flight = 0;
  const std::vector<int> slots =
      clock.Slots({layout.schedule, layout.pipeline, layout.chunks, point.micro_batches()}, stage);
  const StagePlacement placement = PlacementOf(layout);
  for (int chunk = 0; chunk < layout.chunks; ++chunk) {
    const int here = placement.VirtualStage(stage, chunk);
    parameters += point.prices.Parameters(point, account, blocks, here, {});
    experts += point.prices.ExpertParameters(point, account, blocks, here);
    const BlockCounts kinds = KindsOf(point.config.model, blocks, here);
    layers_here += static_cast<double>(kinds.total());
    dense_in_flight += static_cast<double>(kinds.dense) * slots[static_cast<std::size_t>(chunk)];
    sparse_in_flight += static_cast<double>(kinds.sparse) * slots[static_cast<std::size_t>(chunk)];
  }
  const double layers_in_flight = dense_in_flight + sparse_in_flight;
  // A rank's part of what ZeRO divides. Fewer ranks hold the same experts than the same of all else.
  const double owned = (parameters - experts) / data + experts / std::max(1, layout.expert_replicas());
  const double sharded = ZeroShards(layout.zero).optimizer && parameters > 0 ? owned / parameters : 1;
  StageMemory memory;
  memory.fixed = traits.fixed + point.cluster.device.context - kContextUnits * kContextOfUnit;
  const double weight = std::min(point.stack.time.parameter_bytes, traits.unsharded);
  memory.weights = weight * parameters * (ZeroShards(layout.zero).parameters ? sharded : 1);
  const double held = parameters * (ZeroShards(layout.zero).gradients ? sharded : 1);
  memory.gradients = (traits.unsharded - weight) * held;
  memory.accumulation = point.accumulates_in_fp32() ? traits.accumulation * held : 0;
  // Adafactor keeps a row and a column where Adam keeps two matrices.
  memory.optimizer =
      (point.factored_moments ? std::max(traits.sharded - 8, 0.0) : traits.sharded) * parameters * sharded;
  if (point.stack.time.host_optimizer || layout.offload != Offload::kNone) {
    memory.host = memory.optimizer;
    memory.optimizer = 0;
  }
  if (layout.offload == Offload::kFull) {
    memory.host += memory.weights;
    memory.weights = 0;
  }
  if (memory.host > 0) {
    memory.host =
        traits.host_buffers * memory.host + RoundingOf(traits.pinned * parameters * sharded) + traits.host_process;
  }
  if (ZeroShards(layout.zero).parameters) {
    // Gathered modules pass through, a few at a time.
    const double dense = account.dense_parameters() / layout.tensor;
    const double sparse = sparse_in_flight > 0
                              ? (account.sparse_parameters() - account.expert_parameters()) / layout.tensor +
                                    ExpertsOfRank(point, account)
                              : 0;
    memory.scratch += 2 * point.stack.time.parameter_bytes * (dense_in_flight > 0 ? std::max(dense, sparse) : sparse);
  }
  if (!ZeroShards(layout.zero).optimizer && data > 1) {
    memory.scratch += traits.ddp_buckets * parameters;
  }
  const double layer = LayersBytes(point, sparse_in_flight > 0 ? 0 : 1, sparse_in_flight > 0 ? 1 : 0);
  const double tokens = TokensOf(point);
  if (layout.recompute == Recompute::kFull) {
    const double kept =
        2 * tokens * static_cast<double>(point.config.model.hidden) / (layout.sequence_parallel ? layout.tensor : 1);
    memory.activations = (traits.activations_on_host ? 2 : layers_in_flight) * kept;
    memory.host += traits.activations_on_host ? layers_in_flight * kept / layout.tensor : 0;
    memory.scratch += traits.layer_factor * layer;
    memory.fragmentation = (traits.activation_factor - 1) * (memory.activations + traits.layer_factor * layer);
  } else {
    const bool selective = layout.recompute == Recompute::kSelective;
    const double all = LayersBytes(point, dense_in_flight, sparse_in_flight);
    memory.activations = selective ? traits.selective_share * (all - layers_in_flight * ScoreBytes(point)) : all;
    // Backward's own: gradients of the feed-forward's tensors, and what sequence parallelism has gathered.
    const ModelConfig& model = point.config.model;
    const double wide =
        static_cast<double>(sparse_in_flight > 0 ? model.experts.shared_ffn : model.ffn) / layout.tensor;
    memory.scratch += sparse_in_flight > 0 ? ExpertBytes(point) : 0;
    memory.scratch += tokens * (6 * wide + 4 * static_cast<double>(point.config.model.hidden));
    memory.fragmentation = (traits.activation_factor - 1) * memory.activations;
  }
  if (layout.pipeline > 1) {
    // The gradient that comes in and the one that leaves; an input that came in is kept already.
    memory.messages = 4 * tokens * static_cast<double>(point.config.model.hidden) /
                      (point.stack.time.scatter_messages || layout.sequence_parallel ? layout.tensor : 1);
  }
  if (stage == placement.HeadStage()) {
    memory.logits = traits.logit_bytes * tokens * static_cast<double>(point.prices.Vocabulary(point));
  }
  // At the end of a backward all gradients are there, and what its micro batch kept is gone.
  const double gone =
      layers_in_flight > 0
          ? traits.activation_factor * memory.activations * layers_here / layers_in_flight + memory.logits
          : memory.logits;
  memory.scratch += std::max(traits.late_gradients * parameters - gone, 0.0);
  if (ZeroShards(layout.zero).optimizer && data > 1 && traits.reduced_copies > 0) {
    const double copies = (traits.reduced_copies + point.stack.time.gradient_bytes / data) * parameters;
    const double kept = memory.activations + memory.fragmentation + memory.logits + memory.messages + memory.scratch;
    memory.scratch += std::max(copies - kept, 0.0);
  }
  return memory;
}

}  // namespace

// Widths of experts that do not divide by the tensor degree belong to an axis of their own.
LocalSizes PublishedPrices::Sizes(const PlanPoint& point) const {
  return {point.config.model, point.config.layout, point.dtype(), SplitsBackward(point.config.layout.schedule), false};
}

std::int64_t PublishedPrices::Vocabulary(const PlanPoint& point) const {
  const std::int64_t unit =
      static_cast<std::int64_t>(point.stack.time.vocabulary_multiple) * point.config.layout.tensor;
  return RoundUp(point.config.model.vocabulary, unit) / point.config.layout.tensor;
}

// A tied table is held by both ends, unless they are on one stage: then it counts with the embedding.
double PublishedPrices::Parameters(const PlanPoint& point, const ModelAccount& account,
                                   const std::vector<std::int64_t>& blocks, int virtual_stage,
                                   const CountedParameters& counted) const {
  if (!counted.sharded) {
    return 0;  // what other stacks keep whole is not known
  }
  const int last = point.config.layout.virtual_stages() - 1;
  const bool with_embedding = PlacementOf(point.config.layout).HeadStage() == 0;
  const BlockCounts own = KindsOf(point.config.model, blocks, virtual_stage);
  const double table = static_cast<double>(Vocabulary(point)) * static_cast<double>(point.config.model.hidden);
  const double of_experts = static_cast<double>(own.sparse) * account.expert_parameters();
  double parameters = (static_cast<double>(own.dense) * account.dense_parameters() +
                       static_cast<double>(own.sparse) * account.sparse_parameters() - of_experts) /
                          point.config.layout.tensor +
                      ExpertParameters(point, account, blocks, virtual_stage);
  if (virtual_stage == 0) {
    parameters += table;
  }
  if (virtual_stage == last && (!with_embedding || !point.config.model.tie_embeddings)) {
    parameters += table;
  }
  return parameters;
}

double PublishedPrices::ExpertParameters(const PlanPoint& point, const ModelAccount& account,
                                         const std::vector<std::int64_t>& blocks, int virtual_stage) const {
  const BlockCounts own = KindsOf(point.config.model, blocks, virtual_stage);
  return own.sparse > 0 ? static_cast<double>(own.sparse) * ExpertsOfRank(point, account) : 0;
}

double PublishedPrices::ParameterBytes(const PlanPoint& point) const { return point.stack.time.parameter_bytes; }

std::function<StageMemory(int stage)> PublishedPrices::Memory(const PlanPoint& point, const ModelAccount& account,
                                                              const std::vector<std::int64_t>& blocks,
                                                              PipelineClock& clock) const {
  return
      [&point, &account, &blocks, &clock](int stage) { return PublishedMemory(point, account, blocks, stage, clock); };
}

double PublishedPrices::ReportedMemory(const PlanPoint& point, const StageMemory& memory) const {
  using Kind = MemoryTraits::Reported;
  const Kind kind = point.stack.memory.reported;
  return memory.total() - (kind == Kind::kDevice ? 0 : memory.fixed) -
         (kind == Kind::kAllocated ? memory.fragmentation : 0);
}

// Megatron's formula, 24 f B s L h^2 (1 + s/6h + V/16Lh) for GPT shapes: all pairs of attention, a padded vocabulary.
double PublishedPrices::HardwareFlops(const PlanPoint& point, const ModelAccount& /*account*/) const {
  const ModelConfig& model = point.config.model;
  const double tokens = static_cast<double>(point.config.batch.global) * static_cast<double>(model.sequence);
  const double hidden = static_cast<double>(model.hidden);
  const double rows = static_cast<double>((model.heads + 2 * model.kv_heads) * model.head_size());
  const double wide = static_cast<double>(model.heads * model.head_size());
  const double matrices = IsGated(model.feed_forward) ? 3 : 2;
  const auto sparse = static_cast<double>(model.SparseLayers());
  const auto layers = static_cast<double>(model.layers);
  const ExpertsConfig& experts = model.experts;
  const double passed = static_cast<double>(experts.chosen * experts.ffn + experts.shared_ffn);
  const double inner = (static_cast<double>(model.ffn) * (layers - sparse) + passed * sparse) / layers;
  const double block =
      2 * hidden * (rows + wide + matrices * inner + static_cast<double>(experts.count) * sparse / layers) +
      2 * static_cast<double>(model.AddedByLatent()) + 4 * wide * static_cast<double>(model.sequence);
  const double head = 2 * hidden * static_cast<double>(Vocabulary(point)) * point.config.layout.tensor;
  const double passes = point.config.layout.recompute == Recompute::kFull ? 4 : 3;
  return tokens * (passes * layers * block + 3 * head);
}

namespace {

// Where a token's rows leave from the tensor rank that has it, tensor ranks exchange nothing around experts, unless a
// shared one is cut over them.
void TakeOutExperts(const PlanPoint& point, const LocalSizes& s, ModuleTime& time) {
  if (point.config.layout.expert_width_ranks() == 1 && s.ffn == 0) {
    time.forward.tensor /= 2;
    time.backward_input.tensor /= 2;
    time.backward_weight.tensor /= 2;
  }
}

}  // namespace

ModuleTime PublishedPrices::Block(const PlanPoint& point, const LocalSizes& s, const ModuleProgram& program) const {
  const TimeTraits& traits = point.stack.time;
  const ModuleCost cost = CostOfBlock(s, program);
  const AttentionSeconds attention = TimeOfAttention(point, s, ContextSeconds(point, s));
  ModuleTime time;
  double last_product = AddProducts(point, program, false, time);
  time.forward.attention = attention.forward;
  time.backward_input.attention = attention.backward;
  time.forward.memory = MemorySeconds(point, PassBytes(point, s));
  AddTensor(point, cost, time);
  if (s.experts > 0) {
    TakeOutExperts(point, s, time);
    last_product = AddExperts(point, s, time);
  }
  WorkTime& again = time.recomputed;
  if (s.recompute_block) {
    again = time.forward;
    again.tensor = 0;  // below
    if (!traits.recompute_whole) {
      again.matmul -= last_product;
    }
  } else if (s.recompute_attention) {
    again.attention = traits.selective_attention ? attention.forward : 0;
    again.matmul = traits.selective_products * time.forward.matmul;
    again.memory = traits.selective_memory * time.forward.memory;
  }
  time.backward_input.memory = traits.backward_bytes * time.forward.memory;
  // Their second forward may also reduce the last product, whose output is not needed.
  const bool second_forward = s.recompute_block && traits.recompute_whole;
  if (second_forward) {
    time.backward_input.tensor += time.forward.tensor / 2;
  }
  AddCasts(point, s, time);
  time.backward_input += again;
  AddHost(point, s, cost, second_forward, time);
  if (s.recompute_block) {
    time.backward_input += time.backward_weight;
    time.backward_weight = {};
  }
  return time;
}

ModuleTime PublishedPrices::Head(const PlanPoint& point, const LocalSizes& s) const {
  const HeadProducts products = ProductsOfHead(point, s);
  const double logits = static_cast<double>(s.tokens) * static_cast<double>(Vocabulary(point));
  ModuleTime time;
  time.forward.matmul = products.forward;
  time.backward_input.matmul = products.backward;
  time.forward.memory = MemorySeconds(point, point.stack.time.logit_bytes * logits / 2);
  time.backward_input.memory = time.forward.memory;
  return time;
}

double PublishedPrices::Accumulation(const PlanPoint& point, const StepParameters& of_stage) const {
  const double added = point.accumulates_in_fp32() ? AddedGradients(point, of_stage.trained) : 0;
  return added + HostGradients(point, of_stage.trained);
}

double PublishedPrices::UpdateBytes(const PlanPoint& point) const { return StateBytes(point); }

double PublishedPrices::Reductions(const PlanPoint& point, double parameters) const {
  const double bucket = point.stack.time.bucket_bytes;
  return bucket > 0 ? std::max(1.0, std::ceil(parameters * point.stack.time.parameter_bytes / bucket)) : 1;
}

double PublishedPrices::Directions(const PlanPoint& /*point*/) const { return 0; }

}  // namespace trireme
