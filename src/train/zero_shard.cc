#include "train/zero_shard.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/error.h"
#include "base/int8_block.h"

namespace trireme {

ZeroShard::ZeroShard(Arena& arena, GridComms& comms, const ShardPlan& plan, const ParameterTable& table,
                     const Options& options)
    : plan_(plan),
      table_(table),
      options_(options),
      comms_(comms),
      device_(arena.device()),
      ops_(arena.device().ops()),
      of_row_(table.rows().size(), {-1, nullptr}) {
  for (std::size_t i = 0; i < plan_.buckets.size(); ++i) {
    for (const BucketEntry& entry : plan_.buckets[i].entries) {
      of_row_[static_cast<std::size_t>(entry.row)] = {static_cast<int>(i), &entry};
    }
  }
  AllocateBuckets(arena);
  const OptimizerPlan adamw;
  const OptimizerContext context{comms, options.plan == nullptr ? adamw : *options.plan, {plan_, table_, options.zero}};
  optimizer_ = std::make_unique<Optimizer>(arena, options.optimizer, MakeShards(), &context);
  if (options.power_sgd != nullptr && options.power_sgd->active()) {
    power_sgd_ = std::make_unique<PowerSgd>(arena, comms.data(), *options.power_sgd);
  }
  for (std::size_t i = 0; i < plan_.buckets.size(); ++i) {
    const Bucket& bucket = plan_.buckets[i];
    if (bucket.frozen) {
      continue;
    }
    // Under stage 0 every data rank has all gradients and counts its share of them.
    const OwnedRange mine = OwnedBy(bucket, comms_.shard_rank());
    const std::int64_t start = ShardsOf(i).gradients ? mine.first : 0;  // of the gradient tensor within the bucket
    const std::int64_t cut = std::clamp(bucket.replicated, mine.first, mine.last);
    const bool elsewhere = (bucket.tied && !plan_.counts_tied) || comms_.copy_index() > 0;
    if (cut > mine.first) {
      (elsewhere || comms_.coordinate().tensor != 0 ? copied_ : counted_)
          .push_back(buckets_[i].gradient.Range(mine.first - start, cut - mine.first));
    }
    if (mine.last > cut) {
      (elsewhere ? copied_ : counted_).push_back(buckets_[i].gradient.Range(cut - start, mine.last - cut));
    }
  }
}

void ZeroShard::AllocateBuckets(Arena& arena) {
  const StateChoices choices{.zero = options_.zero,
                             .offload = options_.optimizer.host_weights     ? Offload::kFull
                                        : options_.optimizer.host_piece > 0 ? Offload::kOptimizer
                                                                            : Offload::kNone,
                             .working = options_.dtype,
                             .moments = options_.optimizer.moments,
                             .optimizer = options_.plan,
                             .reduce = options_.reduce,
                             .gather = options_.gather};
  for (std::size_t i = 0; i < plan_.buckets.size(); ++i) {
    const BucketTensors tensors = TensorsOfBucket(plan_.buckets[i], choices);
    BucketState state;
    state.weights = arena.Allocate(tensors.weights);
    ops_.Fill(state.weights, 0);
    if (!plan_.buckets[i].frozen) {
      state.gradient = over_activations() ? Tensor{options_.activations + options_.gradient_offsets[i],
                                                   tensors.gradient.dtype,
                                                   {tensors.gradient.count}}
                                          : arena.Allocate(tensors.gradient);
      ops_.Fill(state.gradient, 0);
    }
    buckets_.push_back(state);
  }
  const SharedTensors shared = TensorsOfBuckets(plan_, choices);
  for (std::size_t kind = 0; kind < free_buffers_.size(); ++kind) {
    for (int i = 0; shared.gathered[kind].count > 0 && i < kGatherBuffers; ++i) {
      free_buffers_[kind].push_back(arena.Allocate(shared.gathered[kind]));
    }
  }
  tied_buffer_ = arena.Allocate(shared.tied_gathered);
  staging_.memory = arena.Allocate(shared.staging);
  tied_staging_.memory = arena.Allocate(shared.tied_staging);
  reduced_ = arena.Allocate(shared.reduced);
  narrow_ = arena.Allocate(shared.narrow);
  arrived_ = arena.Allocate(shared.arrived);
}

OwnedRange ZeroShard::Owned(const Bucket& bucket) const {
  return !ZeroShards(options_.zero).optimizer ? OwnedRange{0, bucket.count} : OwnedBy(bucket, comms_.shard_rank());
}

std::optional<UpdatedRange> ZeroShard::OwnedPart(const BucketEntry& entry, const OwnedRange& owned) const {
  const std::int64_t first = std::max(entry.offset, owned.first);
  const std::int64_t last = std::min(entry.offset + entry.count, owned.last);
  if (first >= last) {
    return std::nullopt;
  }
  return UpdatedRange{
      .first = first - owned.first, .count = last - first, .row = entry.row, .slice_first = first - entry.offset};
}

std::vector<OwnedShard> ZeroShard::MakeShards() const {
  std::vector<OwnedShard> shards;
  for (std::size_t i = 0; i < plan_.buckets.size(); ++i) {
    const Bucket& bucket = plan_.buckets[i];
    const OwnedRange owned = Owned(bucket);
    OwnedShard shard;
    if (bucket.frozen) {  // nothing to update
      shard.weight.dtype = options_.dtype;
      shard.first_moments = shard.second_moments = 0;
      shards.push_back(std::move(shard));
      continue;
    }
    shard.weight = ShardsOf(i).parameters ? buckets_[i].weights : buckets_[i].weights.Range(owned.first, owned.count());
    shard.gradient =
        ShardsOf(i).gradients ? buckets_[i].gradient : buckets_[i].gradient.Range(owned.first, owned.count());
    const OptimizerPlan adamw;
    const OptimizerPlan& plan = options_.plan == nullptr ? adamw : *options_.plan;
    const MomentLayout firsts = plan.Moments(bucket, false, options_.zero, owned);
    const MomentLayout seconds = plan.Moments(bucket, true, options_.zero, owned);
    shard.first_moments = firsts.count;
    shard.second_moments = seconds.count;
    for (std::size_t e = 0; e < bucket.entries.size(); ++e) {
      const BucketEntry& entry = bucket.entries[e];
      if (std::optional<UpdatedRange> part = OwnedPart(entry, owned)) {
        const RowUpdate update = plan.Of(entry.row);
        const bool decays = table_.rows()[static_cast<std::size_t>(entry.row)].decays;
        const float decay = decays ? options_.optimizer.weight_decay : 0.0F;
        part->weight_decay = options_.plan == nullptr ? decay : static_cast<float>(update.weight_decay);
        part->rate = static_cast<float>(update.rate);
        part->rule = update.rule;
        part->first_moment = firsts.offsets[e];
        part->second_moment = seconds.offsets[e];
        shard.ranges.push_back(*part);
      }
    }
    shards.push_back(std::move(shard));
  }
  return shards;
}

template <typename Visit>
void ZeroShard::ForEachBucket(const ParameterUse& use, Visit visit) {
  for (std::size_t i = 0; use.own && i < plan_.buckets.size(); ++i) {
    if (!plan_.buckets[i].tied && plan_.buckets[i].module == use.module) {
      visit(i);
    }
  }
  if (use.tied) {
    visit(static_cast<std::size_t>(plan_.tied_bucket));
  }
}

void ZeroShard::Gather(const ParameterUse& use) {
  ForEachBucket(use, [&](std::size_t i) {
    if (!Gathers(i)) {
      return;
    }
    Tensor buffer = tied_buffer_;
    if (!plan_.buckets[i].tied) {
      std::vector<Tensor>& free = BuffersFor(plan_.buckets[i]);
      assert(!free.empty());
      buffer = free.back();
      free.pop_back();
    }
    buckets_[i].present = buffer;
    buckets_[i].gathered = StartGather(i, buffer.Range(0, plan_.buckets[i].count));
    buckets_[i].awaited = false;
  });
}

Event ZeroShard::StartGather(std::size_t bucket, const Tensor& present) {
  const Tensor& weights = buckets_[bucket].weights;
  if (!options_.optimizer.host_weights) {
    return AlongData([&] { GatherShards(weights, present); });
  }
  const OwnedRange owned =
      ShardsOf(bucket).parameters ? Owned(plan_.buckets[bucket]) : OwnedRange{0, plan_.buckets[bucket].count};
  const Tensor part = present.Range(owned.first, owned.count());
  Event come =
      device_.OnStream(kFromHostStream, device_.RecordEvent(), [this, part, weights] { ops_.Copy(part, weights); });
  if (part.count() == present.count()) {
    return come;
  }
  return device_.OnStream(comms_.shards().stream(), come, [&] { GatherShards(part, present); });
}

void ZeroShard::GatherShards(const Tensor& own, const Tensor& present) {
  const OwnedRange owned{.first = comms_.shard_rank() * own.count(), .last = (comms_.shard_rank() + 1) * own.count()};
  switch (options_.gather) {
    case WireFormat::kExact:
      comms_.shards().AllGather(own, present);
      break;
    case WireFormat::kBFloat16: {
      const Tensor sent{narrow_.data, DType::kBFloat16, {present.count()}};
      ops_.Copy(sent.Range(owned.first, owned.count()), own);
      comms_.shards().AllGather(sent.Range(owned.first, owned.count()), sent);
      ops_.Copy(present, sent);
      break;
    }
    case WireFormat::kInt8: {
      const Tensor sent = narrow_.Range(0, PackedWords(present.count()));
      const Tensor part = sent.Range(PackedWords(owned.first), PackedWords(owned.count()));
      ops_.PackInt8(part, own);
      comms_.shards().AllGather(part, sent);
      ops_.UnpackInt8(present, sent, {});
      break;
    }
  }
}

Event ZeroShard::AlongData(const std::function<void()>& work) {
  return device_.OnStream(comms_.shards().stream(), device_.RecordEvent(), work);
}

void ZeroShard::Release(const ParameterUse& use) {
  ForEachBucket(use, [&](std::size_t i) {
    if (!Gathers(i)) {
      return;
    }
    if (!plan_.buckets[i].tied) {
      BuffersFor(plan_.buckets[i]).push_back(buckets_[i].present);
    }
    buckets_[i].present = {};
  });
}

std::pair<int, const BucketEntry*> ZeroShard::Locate(int row) const {
  const auto found = of_row_[static_cast<std::size_t>(row)];
  assert(found.second != nullptr);
  return found;
}

Tensor ZeroShard::Get(int row) {
  const auto [i, entry] = Locate(row);
  BucketState& bucket = buckets_[static_cast<std::size_t>(i)];
  const Tensor& memory = Gathers(static_cast<std::size_t>(i)) ? bucket.present : bucket.weights;
  assert(memory.given());
  if (!bucket.awaited) {
    device_.StreamWait(bucket.gathered);
    bucket.awaited = true;
  }
  return memory.Range(entry->offset, entry->count).Reshaped(entry->shape);
}

std::int64_t ZeroShard::Version(int row) const {
  return options_.reuses_weights && !Gathers(static_cast<std::size_t>(Locate(row).first)) ? version_ : 0;
}

void ZeroShard::Open(const ParameterUse& use) {
  ForEachBucket(use, [&](std::size_t i) {
    if (plan_.buckets[i].frozen) {
      return;
    }
    if (ClearedWhenOpened(i)) {
      ClearAllButMatrices(i, buckets_[i].gradient);
    }
    if (!ShardsOf(i).gradients) {
      return;
    }
    const Bucket& bucket = plan_.buckets[i];
    buckets_[i].staging = (bucket.tied ? tied_staging_ : staging_).memory.Range(0, bucket.count);
    buckets_[i].staged = false;
  });
}

void ZeroShard::ClearStaging(std::size_t bucket) {
  if (!buckets_[bucket].staged) {
    device_.StreamWait((plan_.buckets[bucket].tied ? tied_staging_ : staging_).free);
    ClearAllButMatrices(bucket, buckets_[bucket].staging);
    buckets_[bucket].staged = true;
  }
}

void ZeroShard::ClearAllButMatrices(std::size_t bucket, const Tensor& memory) {
  std::int64_t done = 0;
  const auto clear_until = [&](std::int64_t end) {
    if (end > done) {
      ops_.Fill(memory.Range(done, end - done), 0);
    }
  };
  for (const BucketEntry& entry : plan_.buckets[bucket].entries) {  // by offset
    if (IsOverwritten(bucket, entry.row)) {
      clear_until(entry.offset);
      done = entry.offset + entry.count;
    }
  }
  clear_until(memory.count());
}

bool ZeroShard::IsOverwritten(std::size_t bucket, int row) const {
  if (plan_.buckets[bucket].tied) {
    return !plan_.tied_across_stages && !ShardsOf(bucket).gradients;
  }
  const Parameter& parameter = table_.rows()[static_cast<std::size_t>(row)];
  return parameter.module > 0 && parameter.role == ParameterRole::kWeight;
}

bool ZeroShard::Untouched(int row, bool first) const {
  const auto bucket = static_cast<std::size_t>(Locate(row).first);
  return IsOverwritten(bucket, row) && (ShardsOf(bucket).gradients || (first && overwrites_));
}

Tensor ZeroShard::Gradient(int row) {
  const auto [located, entry] = Locate(row);
  const auto i = static_cast<std::size_t>(located);
  const BucketState& bucket = buckets_[i];
  if (ShardsOf(i).gradients) {
    ClearStaging(i);
  }
  const Tensor& memory = ShardsOf(i).gradients ? bucket.staging : bucket.gradient;
  return memory.Range(entry->offset, entry->count).Reshaped(entry->shape);
}

void ZeroShard::Finish(const ParameterUse& use, bool last) {
  ForEachBucket(use, [&](std::size_t i) {
    BucketState& state = buckets_[i];
    if (plan_.buckets[i].frozen) {
      return;
    }
    if (!ShardsOf(i).gradients) {
      if (last && --state.users == 0 && !compresses_) {
        Reduce(i);
      }
      return;
    }
    ClearStaging(i);
    state.done = AlongData([&] {
      if (options_.reduce != WireFormat::kExact) {
        return options_.reduce == WireFormat::kInt8 ? ReduceInt8(i, state.staging) : ReduceNarrow(i, state.staging);
      }
      const Tensor part = reduced_.Range(0, plan_.buckets[i].shard);
      comms_.shards().ReduceScatter(state.staging, part);
      ops_.Add(state.gradient, part);
    });
    (plan_.buckets[i].tied ? tied_staging_ : staging_).free = state.done;
  });
}

void ZeroShard::Reduce(std::size_t bucket) {
  BucketState& state = buckets_[bucket];
  state.reduced = true;
  state.done = AlongData([&] {
    switch (options_.reduce) {
      case WireFormat::kInt8:
        return ReduceInt8(bucket, state.gradient);
      case WireFormat::kBFloat16:
        return ReduceNarrow(bucket, state.gradient);
      case WireFormat::kExact:
        break;
    }
    if (!ZeroShards(options_.zero).optimizer) {
      comms_.data().AllReduce(state.gradient);
    } else {
      const OwnedRange owned = Owned(plan_.buckets[bucket]);
      comms_.shards().ReduceScatter(state.gradient, state.gradient.Range(owned.first, owned.count()));
    }
  });
}

void ZeroShard::ReduceNarrow(std::size_t bucket, const Tensor& from) {
  const Tensor& gradient = buckets_[bucket].gradient;
  const Tensor sent{narrow_.data, DType::kBFloat16, {from.count()}};
  ops_.Copy(sent, from);
  if (!ZeroShards(options_.zero).optimizer) {
    comms_.data().AllReduce(sent);
    return ops_.Copy(gradient, sent);
  }
  const OwnedRange owned = Owned(plan_.buckets[bucket]);
  const Tensor part = sent.Range(owned.first, owned.count());
  comms_.shards().ReduceScatter(sent, part);
  if (ShardsOf(bucket).gradients) {
    ops_.Add(gradient, part);
  } else {
    ops_.Copy(gradient.Range(owned.first, owned.count()), part);
  }
}

void ZeroShard::ReduceInt8(std::size_t bucket, const Tensor& from) {
  const Tensor& gradient = buckets_[bucket].gradient;
  const std::int64_t words = PackedWords(from.count());
  const Tensor sent = narrow_.Range(0, words);
  const Tensor arrived = arrived_.Range(0, words);
  const int ranks = comms_.shards().size();
  ops_.PackInt8(sent, from);
  comms_.shards().AllToAll(sent, arrived);
  if (ShardsOf(bucket).gradients) {
    return ops_.UnpackInt8(gradient, arrived, {.parts = ranks, .add = true});
  }
  const OwnedRange mine = OwnedBy(plan_.buckets[bucket], comms_.shard_rank());
  ops_.UnpackInt8(gradient.Range(mine.first, mine.count()), arrived, {.parts = ranks});
  if (!ZeroShards(options_.zero).optimizer) {
    const Tensor part = sent.Range(PackedWords(mine.first), PackedWords(mine.count()));
    ops_.PackInt8(part, gradient.Range(mine.first, mine.count()));
    comms_.shards().AllGather(part, sent);
    ops_.UnpackInt8(gradient, sent, {});
  }
}

void ZeroShard::ResetCompression() {
  if (power_sgd_ != nullptr) {
    power_sgd_->Reset();
  }
}

void ZeroShard::RescaleResiduals(float factor) {
  if (power_sgd_ != nullptr) {
    power_sgd_->RescaleResiduals(factor);
  }
}

void ZeroShard::BeginStep(bool overwrites, std::int64_t step) {
  overwrites_ = overwrites;
  compresses_ = power_sgd_ != nullptr && step > options_.power_sgd_start;
  assert(overwrites || !over_activations());
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (plan_.buckets[i].frozen) {
      continue;
    }
    if (!overwrites || ShardsOf(i).gradients) {
      ops_.Fill(buckets_[i].gradient, 0);
    } else if (!ClearedWhenOpened(i)) {
      ClearAllButMatrices(i, buckets_[i].gradient);
    }
    buckets_[i].reduced = false;
    // Embedding and head both add to a tied table, unless they are on two stages.
    buckets_[i].users = plan_.buckets[i].tied && !plan_.tied_across_stages ? 2 : 1;
  }
}

void ZeroShard::FinishGradients() {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (!plan_.buckets[i].frozen && !ShardsOf(i).gradients && !buckets_[i].reduced) {
      compresses_ ? power_sgd_->Reduce(i, buckets_[i].gradient) : Reduce(i);
    }
  }
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& bucket = plan_.buckets[i];
    if (bucket.frozen) {
      continue;
    }
    const OwnedRange owned = Owned(bucket);
    device_.StreamWait(buckets_[i].done);
    buckets_[i].done = nullptr;
    const Tensor gradient = ShardsOf(i).optimizer && !ShardsOf(i).gradients
                                ? buckets_[i].gradient.Range(owned.first, owned.count())
                                : buckets_[i].gradient;
    if (comms_.has_copies()) {
      comms_.copies().AllReduce(gradient);
    }
    const std::int64_t replicated = std::min(owned.last, bucket.replicated) - owned.first;
    if (options_.sequence_parallel && replicated > 0) {
      comms_.tensor().AllReduce(gradient.Range(0, replicated));
    }
    if (bucket.tied && plan_.tied_across_stages) {
      comms_.tied().AllReduce(gradient);
    }
  }
}

void ZeroShard::GatherWeights(bool with_frozen) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const ZeroPolicy shards = ShardsOf(i);
    if (!shards.optimizer || shards.parameters || (plan_.buckets[i].frozen && !with_frozen)) {
      continue;
    }
    if (options_.optimizer.host_weights) {
      GatherOnHost(i);
      continue;
    }
    const OwnedRange owned = Owned(plan_.buckets[i]);
    comms_.shards().AllGather(buckets_[i].weights.Range(owned.first, owned.count()), buckets_[i].weights);
  }
}

void ZeroShard::GatherOnHost(std::size_t bucket) {
  const Bucket& plan = plan_.buckets[bucket];
  const Tensor whole = (plan.tied ? tied_buffer_ : BuffersFor(plan).back()).Range(0, plan.count);
  const OwnedRange owned = Owned(plan);
  const Tensor part = whole.Range(owned.first, owned.count());
  ops_.Copy(part, buckets_[bucket].weights.Range(owned.first, owned.count()));
  comms_.shards().AllGather(part, whole);
  ops_.Copy(buckets_[bucket].weights, whole);
}

void ZeroShard::Update(float learning_rate, float gradient_scale, std::int64_t step) {
  optimizer_->Step(learning_rate, gradient_scale, step);
  GatherWeights(false);
  ++version_;
}

void ZeroShard::Publish() {
  Require(masters_joined_, "Publish makes weights of the masters: call JoinState() after the last step first");
  optimizer_->PublishMasters();
  GatherWeights(true);
  ++version_;
}

}  // namespace trireme
