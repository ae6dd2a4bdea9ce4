#include "train/rank_parts.h"

#include <utility>

#include "comm/shared_gpu.h"
#include "cost/communication_memory.h"
#include "cost/gradient_places.h"
#include "cost/rank_tensors.h"
#include "train/floats_on_host.h"
#include "train/memory_room.h"

namespace trireme {

RankParts::RankParts(const RunConfig& config, RankContext& context)
    : config_(config),
      device_(context.device),
      comms_(context.world, config_.layout, PlacementOf(config_.layout).HeadStage(),
             HeadRanks(config_.model, config_.layout)),
      stage_(config_, comms_.coordinate().pipeline, config_.batch.global, comms_.coordinate().context),
      arena_(device_, MemoryOfStage(stage_.description())) {
  const std::vector<KeptMemory> kept = AllocateKept();
  zero_ = MakeZeroShard(kept.front().slots);
  const bool keeps_packed = device_.is_host() && !device_.is_paced() && MostMicroBatches(config_) > 1;
  device_.set_spare_bytes(keeps_packed ? SpareHostBytes(config_, context) : 0);
  const StepTensors tensors(description());
  loader_ = MakeLoader(tensors);
  const PipelineRunner::Buffers boundaries = AllocateBoundaries(tensors);
  numbers_ = arena_.Allocate(tensors.numbers);
  squares_ = arena_.Allocate(tensors.squares);
  const Tensor slopes = AllocateSlopes(tensors);
  runner_ = std::make_unique<PipelineRunner>(comms_.pipeline(), device_, PlacementOf(config_.layout),
                                             MakeStages(kept, slopes), boundaries);
  zero_->DrawInitialWeights(static_cast<std::uint64_t>(config_.train.seed));
  device_.Synchronize();
  comms_.world().Verify();  // no rank begins its first step while another still makes communicators
}

RankParts::~RankParts() {
  // When an exception ends this rank, its device may wait for collectives that never end, and memory could not be
  // freed.
  if (std::uncaught_exceptions() > exceptions_) {
    comms_.world().AbortDevice();
  } else {
    try {
      SharedGpu::Leave(comms_.world(), device_);
    } catch (const std::exception&) {
      comms_.world().AbortDevice();
    }
  }
  device_.ForgetRepeats();
  device_.set_spare_bytes(0);
}

std::vector<KeptMemory> RankParts::AllocateKept() {
  const StageDescription& description = stage_.description();
  std::vector<KeptMemory> kept;  // by chunk
  std::vector<char*> weights;
  for (int chunk = 0; chunk < config_.layout.chunks; ++chunk) {
    const std::int64_t bytes = WeightCopyBytes(description, chunk);
    weights.push_back(arena_.Allocate(MemoryKind::kWeights, DType::kUInt8, {bytes}).as<char>());
  }
  for (int chunk = 0; chunk < config_.layout.chunks; ++chunk) {
    const KeptPlaces places = PlacesOfKept(description, chunk);
    const int slots = description.slots[static_cast<std::size_t>(chunk)];
    kept.push_back(
        {.slots = arena_.Allocate(MemoryKind::kActivations, DType::kUInt8, {slots * places.device}).as<char>(),
         .weights = weights[static_cast<std::size_t>(chunk)],
         .host = arena_.Allocate(MemoryKind::kHost, DType::kUInt8, {slots * places.host}).as<char>()});
  }
  if (config_.layout.offload_activations) {
    const std::int64_t bytes = ActivationBufferBytes(description);
    const Tensor memory = arena_.Allocate(MemoryKind::kActivations, DType::kUInt8, {kActivationBuffers * bytes});
    activation_buffers_ = std::make_unique<ActivationBuffers>(device_, memory.as<char>(), bytes);
    for (KeptMemory& chunk : kept) {
      chunk.buffers = activation_buffers_.get();
    }
  }
  return kept;
}

std::unique_ptr<ZeroShard> RankParts::MakeZeroShard(char* activations) {
  const OptimizerConfig& optimizer = config_.optimizer;
  const GradientPlaces gradients(description());
  arena_.Allocate(MemoryKind::kGradients, DType::kUInt8, {gradients.beyond});  // right after the activations
  return std::make_unique<ZeroShard>(
      arena_, comms_, description().shards, stage_.table(),
      ZeroShard::Options{.zero = config_.layout.zero,
                         .dtype = description().sizes.dtype,
                         .sequence_parallel = description().sizes.sequence_parallel,
                         .optimizer = {.beta1 = static_cast<float>(optimizer.beta1),
                                       .beta2 = static_cast<float>(optimizer.beta2),
                                       .epsilon = static_cast<float>(optimizer.epsilon),
                                       .weight_decay = static_cast<float>(optimizer.weight_decay),
                                       .momentum = static_cast<float>(optimizer.momentum),
                                       .nesterov = optimizer.nesterov,
                                       .muon_matches_adamw = optimizer.muon_rate == MuonRate::kMatchAdamW,
                                       .relative_step = optimizer.adafactor_relative_step,
                                       .scale_parameter = optimizer.adafactor_scale_parameter,
                                       .moments = description().moments,
                                       .host_piece = config_.layout.offload == Offload::kNone
                                                         ? 0
                                                         : HostPiece(description().shards, config_.layout.zero),
                                       .host_weights = config_.layout.offload == Offload::kFull},
                         .plan = &description().optimizer,
                         .power_sgd = &description().power_sgd,
                         .power_sgd_start = optimizer.powersgd_start,
                         .reduce = config_.layout.reduced_as(),
                         .gather = config_.layout.gathered_as(),
                         .activations = gradients.over_activations ? activations : nullptr,
                         .gradient_offsets = gradients.offsets,
                         .reuses_weights = MostMicroBatches(config_) > 1});
}

std::unique_ptr<BatchLoader> RankParts::MakeLoader(const StepTensors& tensors) {
  return std::make_unique<BatchLoader>(
      arena_, description().sizes, tensors,
      BatchLoader::Options{.data_rank = comms_.coordinate().data,
                           .data_size = config_.layout.data,
                           .document_masks = config_.data.document_masks,
                           // Losses of routers weigh tokens as the head does, on every stage.
                           .reads_tokens = comms_.coordinate().pipeline == 0 || description().HoldsHead() ||
                                           config_.model.experts.balance_loss > 0 || config_.model.experts.z_loss > 0,
                           .seed = static_cast<std::uint64_t>(config_.train.seed),
                           .model = &config_.model,
                           .balance = config_.data.balance == BatchBalance::kAttention});
}

PipelineRunner::Buffers RankParts::AllocateBoundaries(const StepTensors& tensors) {
  const LocalSizes& sizes = description().sizes;
  const auto boundary = [&](const TensorSpec& spec) {
    const Tensor tensor = arena_.Allocate(spec);
    return tensor.given() ? tensor.Reshaped({sizes.outside, sizes.hidden}) : tensor;
  };
  return {.output = boundary(tensors.output),
          .gradient_a = boundary(tensors.gradient_a),
          .gradient_b = boundary(tensors.gradient_b)};
}

Tensor RankParts::AllocateSlopes(const StepTensors& tensors) {
  const Tensor slopes = arena_.Allocate(tensors.slopes);
  if (slopes.given()) {
    const std::vector<float> all = AlibiSlopesOf(config_.model);
    device_.CopyFromHost(slopes.data, all.data() + coordinate().tensor * description().sizes.heads, slopes.bytes());
  }
  return slopes;
}

// By the configuration alone, so that all ranks of the world make the same calls: a stage may have no matrices and
// nothing to train.
void RankParts::ConnectGroups() {
  const LocalSizes& sizes = stage_.description().sizes;
  if (sizes.ring) {
    comms_.context_ring().ConnectNeighbours(Neighbours::kRing, kFirstContextMessageStream);
  }
  if (sizes.ulysses) {
    comms_.context_heads().PrepareAllToAll();
  }
  const bool owned_matrices = TraitsOf(config_.optimizer.kind).owns_matrices;
  if (owned_matrices || config_.layout.reduced_as() == WireFormat::kInt8) {
    comms_.shards().PrepareAllToAll();
  }
  if (owned_matrices) {
    comms_.tensor().PrepareAllToAll();
  }
}

std::vector<std::unique_ptr<Stage>> RankParts::MakeStages(const std::vector<KeptMemory>& kept, const Tensor& slopes) {
  auto* const scratch = arena_.Allocate(MemoryKind::kScratch, DType::kUInt8, {ScratchBytes(description())}).as<char>();
  ConnectGroups();
  const ModuleContext modules{.ops = device_.ops(),
                              .tensor_group = comms_.tensor(),
                              .parameters = *zero_,
                              .gradients = *zero_,
                              .table = stage_.table(),
                              .model = config_.model,
                              .scratch = scratch,
                              .slopes = slopes,
                              .z_loss = static_cast<float>(config_.train.z_loss),
                              .sequence_group = &comms_.context(),
                              .heads_group = &comms_.context_heads(),
                              .ring_group = &comms_.context_ring(),
                              .device = &device_};
  std::vector<std::unique_ptr<Stage>> chunks;
  for (int chunk = 0; chunk < config_.layout.chunks; ++chunk) {
    chunks.push_back(std::make_unique<Stage>(modules, description(), chunk, kept[static_cast<std::size_t>(chunk)]));
  }
  return chunks;
}

std::int64_t RankParts::PlannedCommunicationBytes() const {
  return CommunicationBytes() == 0 ? 0 : CommunicationOf(stage_.description()).total();
}

LiveTensors RankParts::Live() {
  LiveTensors live = zero_->Live();
  live.loss_sums = loader_->loss_sums().Range(0, 2);
  return live;
}

StepCost RankParts::Predicted(std::int64_t global_batch) const {
  const StageOfRun stage(config_, comms_.coordinate().pipeline, global_batch, comms_.coordinate().context);
  return CostOfStep(stage.description(), comms_.replica(), comms_.coordinate().tensor);
}

StepCost RankParts::Counted() {
  StepCost counted;
  counted.memory = arena_.used();
  counted.flops = device_.ops().flops();
  counted[GroupKind::kTensor] = comms_.tensor().traffic();
  counted[GroupKind::kContext] = comms_.context().traffic();
  if (comms_.has_context_groups()) {
    counted[GroupKind::kContext] += comms_.context_heads().traffic();
    counted[GroupKind::kContext] += comms_.context_ring().traffic();
  }
  counted[GroupKind::kData] = comms_.data().traffic();
  if (comms_.has_copies()) {
    counted[GroupKind::kData] += comms_.shards().traffic();
    counted[GroupKind::kData] += comms_.copies().traffic();
  }
  counted[GroupKind::kPipeline] = comms_.pipeline().traffic();
  counted[GroupKind::kTied] = comms_.tied().traffic();
  counted[GroupKind::kWorld] = comms_.world().traffic();
  return counted;
}

bool RankParts::HoldsRow(int row) const {
  for (const Bucket& bucket : stage_.description().shards.buckets) {
    if (bucket.Find(row) != nullptr) {
      return true;
    }
  }
  return false;
}

std::vector<float> RankParts::WeightOnHost(int row) {
  const bool tied = stage_.table().Tied(row);
  const ParameterUse use{
      .module = stage_.table().rows()[static_cast<std::size_t>(row)].module, .own = !tied, .tied = tied};
  zero_->Gather(use);
  const Tensor weight = zero_->Get(row);
  std::vector<float> values = FloatsOnHost(device_, weight);
  zero_->Release(use);
  return values;
}

}  // namespace trireme
