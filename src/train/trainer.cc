#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>

#include "base/error.h"
#include "cost/communication_memory.h"
#include "cost/gradient_places.h"
#include "cost/rank_tensors.h"
#include "train/begin_together.h"
#include "train/floats_on_host.h"
#include "train/memory_room.h"

namespace trireme {
namespace {

// Requests travel in a sum: request r counts 2^(12 (r - 1)) in a float, exact below 4096 ranks that ask for the same.
double RequestCode(int request) { return request == 0 ? 0 : std::ldexp(1.0, 12 * (request - 1)); }

int LargestRequest(double sum) { return sum < 1 ? 0 : std::ilogb(sum) / 12 + 1; }

}  // namespace

Trainer::Trainer(const RunConfig& config, RankContext& context, const Sources& sources)
    : config_(config),
      device_(context.device),
      comms_(context.world, config_.layout, PlacementOf(config_.layout).HeadStage(),
             HeadRanks(config_.model, config_.layout)),
      sources_(sources),
      stage_(config_, comms_.coordinate().pipeline, config_.batch.global, comms_.coordinate().context),
      schedule_(config_),
      arena_(device_, MemoryOfStage(stage_.description())),
      scaler_(config_.train),
      skip_steps_(config_.train.skip_steps) {
  const StageDescription& description = stage_.description();
  const OptimizerConfig& optimizer = config_.optimizer;
  const std::vector<KeptMemory> kept = AllocateKept();
  const GradientPlaces gradients(description);
  arena_.Allocate(MemoryKind::kGradients, DType::kUInt8, {gradients.beyond});  // right after the activations
  zero_ = std::make_unique<ZeroShard>(
      arena_, comms_, description.shards, stage_.table(),
      ZeroShard::Options{.zero = config_.layout.zero,
                         .dtype = description.sizes.dtype,
                         .sequence_parallel = description.sizes.sequence_parallel,
                         .optimizer = {.beta1 = static_cast<float>(optimizer.beta1),
                                       .beta2 = static_cast<float>(optimizer.beta2),
                                       .epsilon = static_cast<float>(optimizer.epsilon),
                                       .weight_decay = static_cast<float>(optimizer.weight_decay),
                                       .momentum = static_cast<float>(optimizer.momentum),
                                       .nesterov = optimizer.nesterov,
                                       .muon_matches_adamw = optimizer.muon_adjust == "match_rms_adamw",
                                       .relative_step = optimizer.adafactor_relative_step,
                                       .scale_parameter = optimizer.adafactor_scale_parameter,
                                       .moments = description.moments,
                                       .host_piece = config_.layout.offload == Offload::kNone
                                                         ? 0
                                                         : HostPiece(description.shards, config_.layout.zero),
                                       .host_weights = config_.layout.offload == Offload::kFull},
                         .plan = &description.optimizer,
                         .power_sgd = &description.power_sgd,
                         .power_sgd_start = optimizer.powersgd_start,
                         .reduce = config_.layout.reduced_as(),
                         .gather = config_.layout.gathered_as(),
                         .activations = gradients.over_activations ? kept.front().slots : nullptr,
                         .gradient_offsets = gradients.offsets,
                         .reuses_weights = MostMicroBatches(config_) > 1});
  const bool keeps_packed = device_.is_host() && !device_.is_paced() && MostMicroBatches(config_) > 1;
  device_.set_spare_bytes(keeps_packed ? SpareHostBytes(config_, context) : 0);
  const StepTensors tensors(description);
  loader_ = std::make_unique<BatchLoader>(
      arena_, description.sizes, tensors,
      BatchLoader::Options{.data_rank = comms_.coordinate().data,
                           .data_size = config_.layout.data,
                           .document_masks = config_.data.document_masks,
                           .reads_tokens = comms_.coordinate().pipeline == 0 || description.HoldsHead(),
                           .seed = static_cast<std::uint64_t>(config_.train.seed),
                           .model = &config_.model,
                           .balance = config_.data.balance == "attention"});
  const LocalSizes& sizes = description.sizes;
  const auto boundary = [&](const TensorSpec& spec) {
    const Tensor tensor = arena_.Allocate(spec);
    return tensor.given() ? tensor.Reshaped({sizes.outside, sizes.hidden}) : tensor;
  };
  const PipelineRunner::Buffers buffers{.output = boundary(tensors.output),
                                        .gradient_a = boundary(tensors.gradient_a),
                                        .gradient_b = boundary(tensors.gradient_b)};
  numbers_ = arena_.Allocate(tensors.numbers);
  squares_ = arena_.Allocate(tensors.squares);
  slopes_ = arena_.Allocate(tensors.slopes);
  if (slopes_.given()) {
    const std::vector<float> all = AlibiSlopes(config_.model.heads);
    device_.CopyFromHost(slopes_.data, all.data() + comms_.coordinate().tensor * sizes.heads, slopes_.bytes());
  }
  auto* const scratch = arena_.Allocate(MemoryKind::kScratch, DType::kUInt8, {ScratchBytes(description)}).as<char>();
  ConnectGroups();
  const ModuleContext modules{.ops = device_.ops(),
                              .tensor_group = comms_.tensor(),
                              .parameters = *zero_,
                              .gradients = *zero_,
                              .table = stage_.table(),
                              .model = config_.model,
                              .scratch = scratch,
                              .slopes = slopes_,
                              .z_loss = static_cast<float>(config_.train.z_loss),
                              .sequence_group = &comms_.context(),
                              .heads_group = &comms_.context_heads(),
                              .ring_group = &comms_.context_ring(),
                              .device = &device_};
  std::vector<std::unique_ptr<Stage>> chunks;
  chunks.reserve(static_cast<std::size_t>(config_.layout.chunks));
  for (int chunk = 0; chunk < config_.layout.chunks; ++chunk) {
    chunks.push_back(std::make_unique<Stage>(modules, description, chunk, kept[static_cast<std::size_t>(chunk)]));
  }
  runner_ = std::make_unique<PipelineRunner>(comms_.pipeline(), device_, PlacementOf(config_.layout), std::move(chunks),
                                             buffers);
  progress_.loss_scale = scaler_.state();
  zero_->DrawInitialWeights(static_cast<std::uint64_t>(config_.train.seed));
  device_.Synchronize();
  comms_.world().Verify();  // no rank begins its first step while another still makes communicators
}

// By the configuration alone, so that all ranks of the world make the same calls: a stage may have no matrices and
// nothing to train.
void Trainer::ConnectGroups() {
  const LocalSizes& sizes = stage_.description().sizes;
  if (sizes.ring) {
    comms_.context_ring().ConnectNeighbours(Neighbours::kRing, kFirstContextMessageStream);
  }
  if (sizes.ulysses) {
    comms_.context_heads().PrepareAllToAll();
  }
  const bool muon = config_.optimizer.kind() == OptimizerKind::kMuon;
  if (muon || config_.layout.reduced_as() == SentAs::kInt8) {
    comms_.shards().PrepareAllToAll();
  }
  if (muon) {
    comms_.tensor().PrepareAllToAll();
  }
}

std::int64_t Trainer::PlannedCommunicationBytes() const {
  return CommunicationBytes() == 0 ? 0 : CommunicationOf(stage_.description()).total();
}

std::vector<KeptMemory> Trainer::AllocateKept() {
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

Trainer::~Trainer() {
  // When an exception ends this rank, its device may wait for collectives that never end, and memory could not be
  // freed.
  if (std::uncaught_exceptions() > exceptions_) {
    comms_.world().AbortDevice();
  } else if (comms_.world().shares_device()) {
    try {
      // To end communicators and to free memory waits for the GPU, which other ranks may still need.
      device_.Synchronize();
      comms_.world().Barrier();
    } catch (const std::exception&) {
      comms_.world().AbortDevice();
    }
  }
  device_.ForgetRepeats();
  device_.set_spare_bytes(0);
}

int Trainer::NextMicroBatches() const {
  return MicroBatches(config_.layout, schedule_.GlobalBatchAt(progress_.consumed_samples));
}

const Trainer::PlannedSchedule& Trainer::ScheduleFor(int micro_batches) {
  const auto [place, inserted] = schedules_.try_emplace(micro_batches);
  if (inserted) {
    place->second.schedule =
        MakeSchedule(config_.layout.schedule, config_.layout.pipeline, config_.layout.chunks, micro_batches);
    place->second.slots = PlanSlots(place->second.schedule, comms_.coordinate().pipeline);
    for (std::size_t stage = 0; stage < place->second.schedule.actions.size(); ++stage) {
      if (static_cast<int>(stage) != comms_.coordinate().pipeline) {
        place->second.schedule.actions[stage] = {};  // other ranks'
      }
    }
    // Memory was planned for the batches of a run from its first step; a resumed ramp-up may come to others.
    for (std::size_t chunk = 0; chunk < place->second.slots.slots.size(); ++chunk) {
      const int planned = stage_.description().slots[chunk];
      Require(place->second.slots.slots[chunk] <= planned,
              "a step of {} micro batches needs {} activation slots, {} are planned; resume with a ramp-up from the "
              "first step",
              micro_batches, place->second.slots.slots[chunk], planned);
    }
  }
  return place->second;
}

StepResult Trainer::Step(int request) {
  const double started = device_.Now();
  const int micro_batches = NextMicroBatches();
  const std::int64_t first = progress_.consumed_samples;
  StepResult result{.step = progress_.step + 1, .global_batch = schedule_.GlobalBatchAt(first)};
  result.learning_rate = rate_factor_ * schedule_.LearningRateAt(first);
  if (skip_steps_.Has(result.step) || passed_steps_.contains(result.step)) {
    return PassOver(result, request);
  }

  // 1. Batch.
  Mark(kFirstPhase);
  const std::vector<MicroBatch> batch = loader_->LoadTraining(*sources_.train, first, micro_batches);
  result.balance = loader_->balance();
  loss_sums_ = batch.front().loss_sums;
  last_micro_batches_ = micro_batches;
  Consume(result.global_batch);
  loader_->Prepare(*sources_.train, progress_.consumed_samples, NextMicroBatches());
  const bool is_first = BeginFirst(micro_batches);

  // 2–5. Gradients, and the numbers that decide about them.
  Compute(batch, result.step);
  double correction = TakeNumbers(result, micro_batches, request);
  if (!result.passed_over && suspicion_ && suspicion_(result)) {
    correction = Rerun(result, first, micro_batches);
  }
  AdaptLossScale(result);
  result.vetoed = !result.skipped && veto_ && veto_(result);
  const double clip = config_.optimizer.clip;
  const double factor = clip > 0 && result.gradient_norm > clip ? clip / result.gradient_norm : 1.0;

  if (before_update_) {
    before_update_(result, correction);
  }
  // 6–7. Update owned shards, then parameters again.
  Mark("update");
  if (!result.skipped && !result.vetoed && result.verdict.cause != Cause::kLasting) {
    zero_->Update(static_cast<float>(result.learning_rate), static_cast<float>(correction * factor),
                  ++progress_.updates);
  } else {
    zero_->ResetCompression();
  }
  device_.Synchronize();
  comms_.CheckAborted();
  if (is_first) {
    EndFirst();
  }
  result.step = ++progress_.step;
  result.consumed_samples = progress_.consumed_samples;
  result.consumed_tokens = progress_.consumed_tokens;
  result.seconds = device_.Now() - started;
  return result;
}

void Trainer::Consume(std::int64_t samples) {
  progress_.consumed_samples += samples;
  progress_.consumed_tokens += samples * config_.model.sequence;
}

void Trainer::AdaptLossScale(StepResult& result) {
  if (result.passed_over) {
    return;
  }
  const double before = scaler_.scale();
  result.overflowed = result.skipped && scaler_.dynamic();
  scaler_.Update(result.step, result.skipped);
  progress_.loss_scale = scaler_.state();
  if (scaler_.scale() != before) {
    zero_->ScaleErrors(static_cast<float>(scaler_.scale() / before));
  }
}

void Trainer::Compute(std::vector<MicroBatch> batch, std::int64_t step) {
  for (MicroBatch& micro_batch : batch) {
    micro_batch.gradient_factor *= static_cast<float>(scaler_.scale());
  }
  const auto micro_batches = static_cast<int>(batch.size());
  const PlannedSchedule& plan = ScheduleFor(micro_batches);
  zero_->DropState();
  BeginTogether(comms_.world());
  const auto run = [&] {
    zero_->BeginStep(runner_->FirstOnesAreKnown(plan.schedule), step);
    runner_->Run(plan.schedule, plan.slots, batch, step);
  };
  if (StepsAreAlike() && config_.layout.ranks() == 1) {
    Mark("forward");
    device_.Repeat(micro_batches, run);
  } else {
    runner_->set_repeats(Repeated(micro_batches), comms_.tensor());
    if (comms_.world().shares_device()) {
      RecordWhileQuiet(plan, batch);
    }
    run();
  }
  // ZeRO 2 and 3 have begun their reductions during backward.
  Mark("reduce");
  zero_->FinishGradients();
}

bool Trainer::BeginFirst(int micro_batches) {
  if (!comms_.world().shares_device() || !begun_.insert(micro_batches).second) {
    return false;
  }
  MeetIdle();
  comms_.set_through_host(true);
  return true;
}

void Trainer::EndFirst() {
  MeetIdle();
  comms_.set_through_host(false);
}

void Trainer::MeetIdle() {
  device_.Synchronize();
  comms_.world().Verify();
}

void Trainer::RecordWhileQuiet(const PlannedSchedule& plan, const std::vector<MicroBatch>& batch) {
  device_.set_repeat_records(false);
  // The second step of so many micro batches: the first has loaded kernels and measured products.
  if (++steps_of_[static_cast<int>(batch.size())] == 2) {
    MeetIdle();
    zero_->BeginStep(runner_->FirstOnesAreKnown(plan.schedule));
    runner_->Record(plan.schedule, plan.slots, batch);
    MeetIdle();
  }
}

double Trainer::TakeNumbers(StepResult& result, int micro_batches, int request) {
  Mark("norm");
  const auto [loss, weight, square, requests] = Exchange(micro_batches, true, request);
  result.request = LargestRequest(requests);
  result.loss_scale = scaler_.scale();
  if (weight == 0) {
    result.skipped = result.passed_over = result.without_targets = true;
    return 1 / scaler_.scale();
  }
  // Micro batches were scaled as if no token was masked; the true weight is known only now.
  const double unscaled =
      static_cast<double>(result.global_batch) * static_cast<double>(config_.model.sequence) / weight;
  const double correction = unscaled / scaler_.scale();
  result.loss = loss / weight;
  result.gradient_norm = std::sqrt(square) * correction;
  result.skipped = !std::isfinite(result.gradient_norm) || !std::isfinite(result.loss);
  result.zeros = config_.train.count_zeros ? CountZeros() : 0;
  return correction;
}

StepResult Trainer::PassOver(StepResult result, int request) {
  Mark(kFirstPhase);
  result.request = LargestRequest(Exchange(0, false, request)[3]);
  result.skipped = result.passed_over = true;
  result.loss_scale = scaler_.scale();
  zero_->ResetCompression();
  result.step = ++progress_.step;
  Consume(result.global_batch);
  result.consumed_samples = progress_.consumed_samples;
  result.consumed_tokens = progress_.consumed_tokens;
  return result;
}

bool Trainer::StepsAreAlike() const {
  return config_.train.graphs && config_.model.dropout == 0 && config_.model.attention_dropout == 0 &&
         config_.layout.offload != Offload::kFull && !config_.layout.offload_activations && !scaler_.dynamic() &&
         (ledger_ == nullptr || !ledger_->has_on_phase());
}

PipelineRunner::Repeats Trainer::Repeated(int micro_batches) {
  using Repeats = PipelineRunner::Repeats;
  // Recordings take memory of their own: many micro batches hide the starts of kernels anyway.
  constexpr int kMostRecorded = 64;
  const ParallelLayout& layout = config_.layout;
  // Messages of the context axis are not recorded.
  if (!StepsAreAlike() || !comms_.tensor().recordable() || layout.context > 1 || ZeroShards(layout.zero).gradients ||
      micro_batches * layout.chunks > kMostRecorded) {
    return Repeats::kNothing;
  }
  return layout.replicas() > 1 ? Repeats::kAllButLast : Repeats::kEverything;
}

void Trainer::set_ledger(Ledger* ledger) {
  ledger_ = ledger;
  runner_->set_ledger(ledger);
}

void Trainer::Mark(std::string_view phase) {
  if (ledger_ != nullptr) {
    ledger_->SetPhase(progress_.step + 1, phase);
  }
}

std::array<double, 2> Trainer::LossSums(int micro_batches) const {
  std::vector<float> losses(static_cast<std::size_t>(micro_batches) * 2);
  if (!losses.empty()) {
    device_.CopyToHost(losses.data(), loss_sums_.data, static_cast<std::int64_t>(losses.size()) * 4);
  }
  std::array<double, 2> sums{};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    sums[i % 2] += losses[i];
  }
  return sums;
}

std::array<double, 4> Trainer::Exchange(int micro_batches, bool with_gradients, int request) {
  std::array<double, 4> sums{};
  sums[3] = RequestCode(request);
  if (stage_.description().HoldsHead() && comms_.coordinate().tensor == 0) {
    const std::array<double, 2> mine = LossSums(micro_batches);
    std::copy(mine.begin(), mine.end(), sums.begin());
  }
  std::vector<Tensor> gradients = zero_->counted_gradients();
  const std::size_t counted = gradients.size();
  gradients.insert(gradients.end(), zero_->copied_gradients().begin(), zero_->copied_gradients().end());
  if (with_gradients && !gradients.empty()) {
    const auto ranges = static_cast<std::int64_t>(gradients.size());
    device_.ops().SumOfSquares(gradients, squares_.Range(0, ranges));
    std::vector<float> squares(gradients.size());
    device_.CopyToHost(squares.data(), squares_.data, ranges * 4);
    for (std::size_t i = 0; i < squares.size(); ++i) {
      // A copy adds nothing to the norm, unless it would poison this rank's weights: then every rank must know.
      sums[2] += i < counted || !std::isfinite(squares[i]) ? squares[i] : 0;
    }
  }
  std::array<float, kStepNumbers> numbers{};
  std::copy(sums.begin(), sums.end(), numbers.begin());
  device_.CopyFromHost(numbers_.data, numbers.data(), sizeof(numbers));
  comms_.world().AllReduce(numbers_);
  device_.CopyToHost(numbers.data(), numbers_.data, sizeof(numbers));
  comms_.Verify();  // what ranks did not call alike must not become an update
  return {numbers[0], numbers[1], numbers[2], numbers[3]};
}

double Trainer::Validate() {
  Require(sources_.validation != nullptr, "validation was asked for, but the run has no validation source");
  zero_->DropState();
  const std::int64_t stride = static_cast<std::int64_t>(config_.layout.micro_batch) * config_.layout.data;
  const int most = stage_.description().most_micro_batches;
  std::int64_t left = CeilDiv(config_.validation.samples, stride);
  double loss = 0;
  double weight = 0;
  const bool is_first = BeginFirst(0);
  for (std::int64_t first = 0; left > 0; left -= most) {
    const int micro_batches = static_cast<int>(std::min<std::int64_t>(left, most));
    const std::vector<MicroBatch> batch =
        loader_->LoadEvaluation(*sources_.validation, first, micro_batches, config_.validation.samples);
    loss_sums_ = batch.front().loss_sums;
    BeginTogether(comms_.world());
    runner_->Evaluate(batch);
    const std::array<double, 4> sums = Exchange(micro_batches, false);
    loss += sums[0];
    weight += sums[1];
    first += micro_batches * stride;
  }
  if (is_first) {
    EndFirst();
  }
  return loss / weight;
}

void Trainer::Restore(const Progress& progress) {
  progress_ = progress;
  scaler_.Restore(progress.loss_scale);
  progress_.loss_scale = scaler_.state();
  zero_->ResetCompression();
  zero_->Publish();
}

StepCost Trainer::Predicted(std::int64_t global_batch) const {
  const StageOfRun stage(config_, comms_.coordinate().pipeline, global_batch, comms_.coordinate().context);
  return CostOfStep(stage.description(), comms_.replica(), comms_.coordinate().tensor);
}

StepCost Trainer::Counted() {
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

bool Trainer::HoldsRow(int row) const {
  for (const Bucket& bucket : stage_.description().shards.buckets) {
    if (bucket.Find(row) != nullptr) {
      return true;
    }
  }
  return false;
}

std::vector<float> Trainer::WeightOnHost(int row) {
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
