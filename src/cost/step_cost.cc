#include "cost/step_cost.h"

#include <algorithm>
#include <numeric>

#include "cost/gradient_places.h"
#include "cost/rank_tensors.h"
#include "lowering/operands.h"

namespace trireme {
namespace {

// Calls visit(module, index of the block among the chunk's blocks) for each module of a chunk.
template <typename Visitor>
void ForEachModule(const StageDescription& stage, int chunk, Visitor visit) {
  const ModuleRange& range = stage.Range(chunk);
  const std::int64_t first_block = std::max<std::int64_t>(range.first, 1);
  for (std::int64_t module = range.first; module < range.last; ++module) {
    visit(module, module - first_block);
  }
}

// The programs of a stage's blocks. Blocks differ in recomputation, in whether they have experts and in whether they
// have positions only: eight programs at most are made, since the planner asks for the memory of very many stages.
class BlockPrograms {
 public:
  explicit BlockPrograms(const StageDescription& stage) : stage_(stage) {}

  // `index`: of the block among those of its chunk.
  const ModuleProgram& Of(std::int64_t module, std::int64_t index) {
    const bool recomputes = stage_.layout.recompute_layers == 0 || index < stage_.layout.recompute_layers;
    const bool sparse = stage_.model.IsSparse(module - 1);
    const AttentionKind attention = {.window = stage_.sizes.window,
                                     .rotary = stage_.model.AttentionOf(module - 1).rotary};
    std::shared_ptr<const ModuleProgram>& program =
        (recomputes ? recomputing_ : keeping_)[(sparse ? 1U : 0U) + (attention.rotary ? 0U : 2U)];
    if (program == nullptr) {
      const LocalSizes sizes =
          BlockSizes(stage_.sizes, stage_.layout, index).OfKind(stage_.model, sparse).WithAttention(attention);
      program = stage_.programs != nullptr ? stage_.programs->ProgramOf(stage_.model, sizes)
                                           : std::make_shared<const ModuleProgram>(PlanBlock(stage_.model, sizes));
    }
    return *program;
  }

 private:
  const StageDescription& stage_;
  // Dense blocks, those with experts; then both without positions.
  std::array<std::shared_ptr<const ModuleProgram>, 4> recomputing_;
  std::array<std::shared_ptr<const ModuleProgram>, 4> keeping_;
};

void AddPipelineTraffic(const StageDescription& stage, StepCost& cost) {
  const LocalSizes& s = stage.sizes;
  const std::int64_t bytes = s.outside * s.hidden * s.element();
  const StagePlacement placement = PlacementOf(stage.layout);
  for (int chunk = 0; chunk < stage.layout.chunks; ++chunk) {
    const int here = placement.VirtualStage(stage.pipeline, chunk);
    // An activation from the stage before and its gradient back; the mirror image with the stage after.
    const int neighbours = (placement.IsRemote(here, here - 1) ? 1 : 0) + (placement.IsRemote(here, here + 1) ? 1 : 0);
    cost[GroupKind::kPipeline].Add(CollectiveKind::kSend, bytes, neighbours * stage.micro_batches);
    cost[GroupKind::kPipeline].Add(CollectiveKind::kReceive, bytes, neighbours * stage.micro_batches);
  }
}

// How often a micro batch gathers a bucket's weights (ZeRO 3) and reduces its gradients (ZeRO 2 and 3).
struct BucketUse {
  int gathers = 0;
  int reductions = 0;
};

int PartsThatReadParameters(const ModuleProgram& program) {
  int parts = 0;
  for (const std::vector<ProgramStep>* steps : {&program.forward, &program.backward, &program.backward_weight}) {
    parts += UseOf(program, *steps, Owner::kParameter).own ? 1 : 0;
  }
  return parts;
}

BucketUse UseOfBucket(const StageDescription& stage, const Bucket& bucket, BlockPrograms& programs) {
  if (bucket.tied) {
    // The embedding's forward and the head's; the gradients of both.
    const int users = stage.shards.tied_across_stages ? 1 : 2;
    return {.gathers = users, .reductions = users};
  }
  if (bucket.module == 0) {
    return {.gathers = PartsThatReadParameters(PlanEmbedding(stage.model, stage.sizes)), .reductions = 1};
  }
  if (bucket.module == stage.model.modules() - 1) {
    const ModuleProgram head = PlanHead(stage.model, stage.sizes, HeadChunk(stage.sizes, stage.head_chunk));
    return {.gathers = PartsThatReadParameters(head), .reductions = 1};
  }
  for (int chunk = 0; chunk < stage.layout.chunks; ++chunk) {
    const ModuleRange& range = stage.Range(chunk);
    if (range.Contains(bucket.module)) {
      const ModuleProgram& program = programs.Of(bucket.module, bucket.module - std::max<std::int64_t>(range.first, 1));
      return {.gathers = PartsThatReadParameters(program), .reductions = 1};
    }
  }
  return {};
}

void AddStateTraffic(const StageDescription& stage, int replica, StepCost& cost) {
  const int zero = stage.layout.zero;
  const std::int64_t element = stage.sizes.element();
  const WireFormat reduce = stage.layout.reduced_as();
  BlockPrograms programs(stage);
  for (const Bucket& bucket : stage.shards.buckets) {
    const BucketUse use = UseOfBucket(stage, bucket, programs);
    const ZeroPolicy shards = ShardsOf(bucket, zero);
    const OwnedRange owned =
        !shards.optimizer ? OwnedRange{0, bucket.count} : OwnedBy(bucket, replica % stage.layout.shards());
    const std::int64_t gathered =
        shards.parameters ? BytesSent(stage.layout.gathered_as(), bucket.count, element) : bucket.count * element;
    if (bucket.frozen) {
      // Never updated: moved only where it is gathered for each use.
      if (stage.layout.shards() > 1 && shards.parameters) {
        cost[GroupKind::kData].Add(CollectiveKind::kAllGather, gathered, use.gathers * stage.micro_batches);
      }
      continue;
    }
    if (stage.layout.copies() > 1) {
      cost[GroupKind::kData].Add(CollectiveKind::kAllReduce, owned.count() * 4);
    }
    if (stage.layout.shards() > 1) {
      Traffic& data = cost[GroupKind::kData];
      const bool compresses = stage.power_sgd.active();
      const std::int64_t sent = BytesSent(reduce, bucket.count, SizeOf(DType::kFloat32));
      const int reductions = shards.gradients ? use.reductions * stage.micro_batches : compresses ? 0 : 1;
      if (reduce == WireFormat::kInt8) {
        data.Add(CollectiveKind::kAllToAll, sent, reductions);
        data.Add(CollectiveKind::kAllGather, sent, shards.optimizer ? 0 : reductions);
      } else {
        data.Add(shards.optimizer ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce, sent, reductions);
      }
      if (shards.optimizer) {
        data.Add(CollectiveKind::kAllGather, gathered, shards.parameters ? use.gathers * stage.micro_batches : 1);
      }
    }
    const std::int64_t replicated = std::min(owned.last, bucket.replicated) - owned.first;
    if (stage.sizes.sequence_parallel && replicated > 0) {
      cost[GroupKind::kTensor].Add(CollectiveKind::kAllReduce, replicated * 4);
    }
    if (bucket.tied && stage.shards.tied_across_stages) {
      cost[GroupKind::kTied].Add(CollectiveKind::kAllReduce, owned.count() * 4);
    }
  }
}

}  // namespace

const ModuleRange& StageDescription::Range(int chunk) const {
  return partition.Range(PlacementOf(layout).VirtualStage(pipeline, chunk));
}

bool StageDescription::HoldsHead() const { return PlacementOf(layout).HeadStage() == pipeline; }

std::string_view Name(GroupKind group) {
  static constexpr std::array<std::string_view, kGroupKinds> kNames = {"tensor",   "context", "data",
                                                                       "pipeline", "tied",    "world"};
  return kNames[static_cast<std::size_t>(group)];
}

const LocalSizes BlockSizes(const LocalSizes& sizes, const ParallelLayout& layout, std::int64_t index) {
  const bool recomputes = layout.recompute_layers == 0 || index < layout.recompute_layers;
  return recomputes ? sizes : sizes.WithoutRecompute();
}

std::vector<std::int64_t> KeptOfModules(const StageDescription& stage, int chunk) {
  std::vector<std::int64_t> bytes;
  BlockPrograms programs(stage);
  ForEachModule(stage, chunk, [&](std::int64_t module, std::int64_t index) {
    if (module == 0) {
      bytes.push_back(EmbeddingPlan(stage.model, stage.sizes).kept_bytes);
    } else if (module == stage.model.modules() - 1) {
      bytes.push_back(HeadPlan(stage.sizes, HeadChunk(stage.sizes, stage.head_chunk)).kept_bytes);
    } else {
      bytes.push_back(programs.Of(module, index).kept_bytes);
    }
  });
  return bytes;
}

std::int64_t KeptBytes(const StageDescription& stage, int chunk) {
  const std::vector<std::int64_t> modules = KeptOfModules(stage, chunk);
  return std::accumulate(modules.begin(), modules.end(), std::int64_t{0});
}

KeptPlaces PlacesOfKept(const StageDescription& stage, int chunk) {
  KeptPlaces places;
  if (!stage.layout.offload_activations) {
    places.device = KeptBytes(stage, chunk);
    return places;
  }
  const LocalSizes& sizes = stage.sizes;
  const std::vector<std::int64_t> modules = KeptOfModules(stage, chunk);
  ForEachModule(stage, chunk, [&](std::int64_t module, std::int64_t /*index*/) {
    const std::int64_t first = stage.Range(chunk).first;
    const std::int64_t bytes = modules[static_cast<std::size_t>(module - first)];
    if (module == 0 || module == stage.model.modules() - 1) {
      places.device += bytes;
      return;
    }
    places.host += bytes;
    places.largest_block = std::max(places.largest_block, bytes);
    places.device +=
        module == first ? RoundUp(sizes.outside * sizes.hidden * sizes.element(), kPlanAlignment) : std::int64_t{0};
  });
  return places;
}

std::int64_t ActivationBufferBytes(const StageDescription& stage) {
  std::int64_t bytes = 0;
  for (int chunk = 0; chunk < stage.layout.chunks; ++chunk) {
    bytes = std::max(bytes, PlacesOfKept(stage, chunk).largest_block);
  }
  return bytes;
}

std::int64_t ScratchBytes(const StageDescription& stage) {
  std::int64_t bytes = 0;
  BlockPrograms programs(stage);
  for (int chunk = 0; chunk < stage.layout.chunks; ++chunk) {
    ForEachModule(stage, chunk, [&](std::int64_t module, std::int64_t index) {
      if (module == 0) {
        bytes = std::max(bytes, EmbeddingPlan(stage.model, stage.sizes).scratch_bytes);
      } else if (module == stage.model.modules() - 1) {
        bytes = std::max(bytes, HeadPlan(stage.sizes, HeadChunk(stage.sizes, stage.head_chunk)).scratch_bytes);
      } else {
        bytes = std::max(bytes, programs.Of(module, index).scratch_bytes);
      }
    });
  }
  return bytes;
}

std::int64_t WeightCopyBytes(const StageDescription& stage, int chunk) {
  std::int64_t bytes = 0;
  BlockPrograms programs(stage);
  ForEachModule(stage, chunk, [&](std::int64_t module, std::int64_t index) {
    bytes += module > 0 && module < stage.model.modules() - 1 ? programs.Of(module, index).weight_bytes : 0;
  });
  return bytes;
}

LocalSizes WithFloat8Weights(const StageDescription& stage) {
  if (!stage.sizes.float8 || stage.layout.gathers_modules()) {
    return stage.sizes;
  }
  StageDescription kept = stage;
  kept.sizes.float8_weights = true;
  StageDescription bf16 = stage;
  bf16.sizes.float8 = false;
  return MemoryOfStage(kept).total() <= MemoryOfStage(bf16).total() ? kept.sizes : stage.sizes;
}

ModuleCost CostOfVirtualStage(const StageDescription& stage, int chunk) {
  ModuleCost sum;
  BlockPrograms programs(stage);
  ForEachModule(stage, chunk, [&](std::int64_t module, std::int64_t index) {
    const ModuleCost cost =
        module == 0 ? CostOfEmbedding(stage.sizes, stage.model)
        : module == stage.model.modules() - 1
            ? CostOfHead(stage.sizes, stage.model, HeadChunk(stage.sizes, stage.head_chunk))
            : CostOfBlock(BlockSizes(stage.sizes, stage.layout, index).ForLayer(stage.model, module - 1),
                          programs.Of(module, index));
    sum.forward += cost.forward;
    sum.backward_input += cost.backward_input;
    sum.backward_weight += cost.backward_weight;
    sum.evaluation += cost.evaluation;
  });
  return sum;
}

MemoryUse MemoryOfStage(const StageDescription& stage) {
  MemoryUse memory = StateMemory(stage.shards, {.zero = stage.layout.zero,
                                                .offload = stage.layout.offload,
                                                .working = stage.sizes.dtype,
                                                .moments = stage.moments,
                                                .optimizer = &stage.optimizer,
                                                .reduce = stage.layout.reduced_as(),
                                                .gather = stage.layout.gathered_as()});
  memory[MemoryKind::kOptimizer] += stage.optimizer.ExtraBytes(stage.layout);
  for (int chunk = 0; chunk < stage.layout.chunks; ++chunk) {
    const KeptPlaces kept = PlacesOfKept(stage, chunk);
    memory[MemoryKind::kActivations] += stage.slots[static_cast<std::size_t>(chunk)] * kept.device;
    memory[MemoryKind::kHost] += stage.slots[static_cast<std::size_t>(chunk)] * kept.host;
    memory[MemoryKind::kWeights] += WeightCopyBytes(stage, chunk);
  }
  memory[MemoryKind::kActivations] += kActivationBuffers * ActivationBufferBytes(stage);
  if (const GradientPlaces gradients(stage); gradients.over_activations) {
    memory[MemoryKind::kGradients] = gradients.beyond;
  }
  memory[MemoryKind::kGradients] += stage.power_sgd.Bytes();
  memory[MemoryKind::kScratch] = ScratchBytes(stage);
  memory[MemoryKind::kMessages] += StepTensors(stage).bytes();
  return memory;
}

StepCost CostOfStep(const StageDescription& stage, int replica, int tensor_rank) {
  StepCost cost;
  cost.memory = MemoryOfStage(stage);
  for (int chunk = 0; chunk < stage.layout.chunks; ++chunk) {
    const ModuleCost modules = CostOfVirtualStage(stage, chunk);
    for (const WorkCost* part : {&modules.forward, &modules.backward_input, &modules.backward_weight}) {
      cost.flops += part->flops * stage.micro_batches;
      for (int kind = 0; kind < kCollectiveKinds; ++kind) {
        const auto k = static_cast<std::size_t>(kind);
        cost[GroupKind::kTensor].calls[k] += part->tensor.calls[k] * stage.micro_batches;
        cost[GroupKind::kTensor].bytes[k] += part->tensor.bytes[k] * stage.micro_batches;
        cost[GroupKind::kContext].calls[k] += part->context.calls[k] * stage.micro_batches;
        cost[GroupKind::kContext].bytes[k] += part->context.bytes[k] * stage.micro_batches;
      }
    }
  }
  AddPipelineTraffic(stage, cost);
  AddStateTraffic(stage, replica, cost);
  stage.optimizer.AddTraffic(stage.layout, replica % stage.layout.shards(), cost[GroupKind::kTensor],
                             cost[GroupKind::kData]);
  stage.power_sgd.AddTraffic(cost[GroupKind::kData]);
  cost.flops.update = stage.power_sgd.Flops() + stage.optimizer.Flops(replica % stage.layout.shards(), tensor_rank);
  if (stage.layout.ranks() > 1) {
    cost[GroupKind::kWorld].Add(CollectiveKind::kAllReduce, kStepNumbers * 4);
  }
  return cost;
}

int MostMicroBatches(const RunConfig& config) {
  return MicroBatches(config.layout, BatchSchedule(config.batch).Sizes().back());
}

DType ProductDType(const std::string& train_dtype) {
  if (train_dtype == "fp8") {
    return DType::kFloat8E4M3;
  }
  return train_dtype == "tf32" ? DType::kFloat32 : ParseDType(train_dtype);
}

DType WorkingDType(const std::string& train_dtype) {
  const DType products = ProductDType(train_dtype);
  return IsFloat8(products) ? DType::kBFloat16 : products;
}

namespace {

struct SlotNeeds {
  std::vector<int> slots;  // by chunk
  bool splits = false;     // whether backward comes in two parts
};

// Slots of a registered kind, without making the whole schedule where a formula has its slots (law 6), else from its
// compute actions alone: ranks that execute a schedule add messages and validate it.
SlotNeeds SlotNeedsOf(const ParallelLayout& layout, int pipeline, int micro_batches) {
  const ScheduleKind* const kind = FindScheduleKind(layout.schedule);
  if (kind == nullptr) {
    const Schedule schedule = MakeSchedule(layout.schedule, layout.pipeline, layout.chunks, micro_batches);
    return {PlanSlots(schedule, pipeline).slots, SplitsBackward(schedule)};
  }
  SlotNeeds needs{.slots = {}, .splits = kind->splits_backward};
  if (kind->in_flight == nullptr) {
    const Schedule schedule{.name = layout.schedule,
                            .stages = layout.pipeline,
                            .chunks = layout.chunks,
                            .micro_batches = micro_batches,
                            .actions = kind->make(layout.pipeline, layout.chunks, micro_batches),
                            .placement_kind = kind->placement};
    needs.slots = PlanSlots(schedule, pipeline).slots;
    return needs;
  }
  for (int chunk = 0; chunk < layout.chunks; ++chunk) {
    needs.slots.push_back(kind->in_flight(layout.pipeline, pipeline, chunk, micro_batches));
  }
  return needs;
}

}  // namespace

StageOfRun::StageOfRun(const RunConfig& config, int pipeline, std::int64_t global_batch, int context_rank)
    : table_(config.model),
      partition_(config.model, config.layout),
      shards_(table_, config.layout, partition_, pipeline),
      description_{.model = config.model,
                   .layout = config.layout,
                   .partition = partition_,
                   .shards = shards_,
                   .sizes = LocalSizes(config.model, config.layout, ProductDType(config.train.dtype), false,
                                       config.train.plain_attention()),
                   .pipeline = pipeline,
                   .slots = std::vector<int>(static_cast<std::size_t>(config.layout.chunks), 0),
                   .micro_batches = MicroBatches(config.layout, global_batch),
                   .most_micro_batches = MostMicroBatches(config),
                   .document_masks = config.data.document_masks,
                   .document_positions = config.data.document_positions,
                   .head_chunk = config.train.head_chunk,
                   .moments = ParseDType(config.optimizer.moments),
                   .optimizer = {config.optimizer, WorkingDType(config.train.dtype), table_, shards_, config.layout},
                   .power_sgd = {config.optimizer, shards_, config.layout}} {
  bool splits = false;
  for (const std::int64_t size : BatchSchedule(config.batch).Sizes()) {
    const SlotNeeds needs = SlotNeedsOf(config.layout, pipeline, MicroBatches(config.layout, size));
    splits = splits || needs.splits;
    for (std::size_t chunk = 0; chunk < needs.slots.size(); ++chunk) {
      description_.slots[chunk] = std::max(description_.slots[chunk], needs.slots[chunk]);
    }
  }
  description_.sizes =
      LocalSizes(config.model, config.layout, ProductDType(config.train.dtype), splits, config.train.plain_attention());
  description_.sizes.context_rank = context_rank;
  description_.sizes.float8_linears = ParseFloat8Products(config.train.fp8_products);
  description_.sizes = WithFloat8Weights(description_);
}

}  // namespace trireme
