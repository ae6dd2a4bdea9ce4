#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trireme {
namespace {

// torch.optim.Muon's adjust_lr_fn.
float MuonScale(const OptimizerOptions& options, const Shape& shape) {
  const auto rows = static_cast<double>(shape[0]);
  const auto columns = static_cast<double>(shape[1]);
  return static_cast<float>(options.muon_matches_adamw ? 0.2 * std::sqrt(std::max(rows, columns))
                                                       : std::sqrt(std::max(1.0, rows / columns)));
}

struct Interval {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// What a piece [first, first + count) of a shard has of the moments at `offset`, ranges in their order.
Interval MomentsOf(const OwnedShard& shard, std::int64_t first, std::int64_t count,
                   std::int64_t (*offset)(const UpdatedRange&)) {
  std::int64_t begin = -1;
  std::int64_t end = 0;
  for (const UpdatedRange& range : shard.ranges) {
    const std::int64_t from = std::max(range.first, first);
    const std::int64_t to = std::min(range.first + range.count, first + count);
    if (from < to && offset(range) >= 0) {
      begin = begin < 0 ? offset(range) + from - range.first : begin;
      end = offset(range) + to - range.first;
    }
  }
  return begin < 0 ? Interval{} : Interval{begin, end - begin};
}

std::int64_t FirstOffset(const UpdatedRange& range) { return range.first_moment; }
std::int64_t SecondOffset(const UpdatedRange& range) { return range.second_moment; }

Tensor PartOfGiven(const Tensor& whole, const Interval& part) {
  return whole.given() && part.count > 0 ? whole.Range(part.first, part.count) : Tensor{};
}

}  // namespace

Optimizer::Optimizer(Arena& arena, const OptimizerOptions& options, std::vector<OwnedShard> shards,
                     const OptimizerContext* context)
    : device_(arena.device()), ops_(device_.ops()), options_(options), shards_(std::move(shards)) {
  const bool on_host = options_.host_piece > 0;
  bool first_moments = false;
  bool second_moments = false;
  for (OwnedShard& shard : shards_) {
    for (UpdatedRange& range : shard.ranges) {
      // Without a plan's compact moments they lie as the weights do.
      range.first_moment = shard.first_moments < 0 ? range.first : range.first_moment;
      range.second_moment = shard.second_moments < 0 ? range.first : range.second_moment;
    }
    shard.first_moments = shard.first_moments < 0 ? shard.weight.count() : shard.first_moments;
    shard.second_moments = shard.second_moments < 0 ? shard.weight.count() : shard.second_moments;
    first_moments = first_moments || shard.first_moments > 0;
    second_moments = second_moments || shard.second_moments > 0;
  }
  if (context != nullptr) {
    sharded_ = std::make_unique<ShardedState>(context->sharded);
  }
  std::array<State, 2> slots;
  if (on_host) {
    for (State& slot : slots) {
      const std::int64_t piece = options_.host_piece;
      slot = Allocate(arena, MemoryKind::kOptimizer, {piece, first_moments ? piece : 0, second_moments ? piece : 0});
      if (options_.host_weights) {
        slot.weight = arena.Allocate(MemoryKind::kOptimizer, shards_.front().weight.dtype, {piece});
      }
    }
  }
  for (const OwnedShard& shard : shards_) {
    const std::int64_t count = shard.weight.count();
    states_.push_back(Allocate(arena, on_host ? MemoryKind::kHost : MemoryKind::kOptimizer,
                               {count, shard.first_moments, shard.second_moments}));
    states_.back().weight = options_.host_weights ? shard.weight : Tensor{};
    const std::int64_t step = on_host ? options_.host_piece : std::max<std::int64_t>(count, 1);
    for (std::int64_t first = 0; first < count; first += step) {
      pieces_.push_back(PieceOf(shard, states_.back(), first, std::min(step, count - first),
                                on_host ? &slots[pieces_.size() % 2] : nullptr));
    }
  }
  if (context != nullptr && !context->plan.matrices.matrices.empty()) {
    muon_ = std::make_unique<Muon>(arena, context->comms, context->plan, *sharded_, shards_);
  }
  if (context != nullptr && context->plan.parameter_count > 0) {
    adafactor_ = std::make_unique<Adafactor>(
        arena, context->comms, context->plan, *sharded_, shards_,
        AdafactorOptions{.relative_step = options_.relative_step, .scale_parameter = options_.scale_parameter});
  }
}

Optimizer::State Optimizer::Allocate(Arena& arena, MemoryKind kind, const OptimizerCounts& counts) const {
  const DType working = shards_.empty() ? DType::kFloat32 : shards_.front().weight.dtype;
  const OptimizerTensors tensors(kind, counts, working, options_.moments);
  const auto zeros = [&](const TensorSpec& spec) {
    const Tensor tensor = arena.Allocate(spec);
    if (tensor.given()) {
      ops_.Fill(tensor, 0);
    }
    return tensor;
  };
  State state;
  state.low = zeros(tensors.low);
  state.first_moment = zeros(tensors.first_moment);
  state.second_moment = zeros(tensors.second_moment);
  return state;
}

Optimizer::Piece Optimizer::PieceOf(const OwnedShard& shard, const State& state, std::int64_t first, std::int64_t count,
                                    const State* slot) const {
  const Interval own{first, count};
  const Interval firsts = MomentsOf(shard, first, count, FirstOffset);
  const Interval seconds = MomentsOf(shard, first, count, SecondOffset);
  const State home{.weight = PartOfGiven(state.weight, own),
                   .low = PartOfGiven(state.low, own),
                   .first_moment = PartOfGiven(state.first_moment, firsts),
                   .second_moment = PartOfGiven(state.second_moment, seconds)};
  Piece piece{.home = slot == nullptr ? State{} : home, .passing = home, .first_pass = {}, .second_pass = {}};
  if (slot != nullptr) {
    piece.passing = {.weight = PartOfGiven(slot->weight, {0, count}),
                     .low = PartOfGiven(slot->low, {0, count}),
                     .first_moment = PartOfGiven(slot->first_moment, {0, firsts.count}),
                     .second_moment = PartOfGiven(slot->second_moment, {0, seconds.count})};
  }
  for (const UpdatedRange& range : shard.ranges) {
    const std::int64_t begin = std::max(range.first, first);
    const std::int64_t end = std::min(range.first + range.count, first + count);
    if (begin >= end) {
      continue;
    }
    const auto part = [&](const Tensor& passing, std::int64_t at) {
      return passing.given() && at >= 0 ? passing.Range(at, end - begin) : Tensor{};
    };
    const auto moment = [&](const Tensor& passing, std::int64_t offset, const Interval& interval) {
      return part(passing, offset < 0 ? -1 : offset + begin - range.first - interval.first);
    };
    const State& passing = piece.passing;
    AddRange(range,
             {.weight =
                  passing.weight.given() ? part(passing.weight, begin - first) : shard.weight.Range(begin, end - begin),
              .low = part(passing.low, begin - first),
              .first_moment = moment(passing.first_moment, range.first_moment, firsts),
              .second_moment = moment(passing.second_moment, range.second_moment, seconds),
              .gradient = shard.gradient.Range(begin, end - begin),
              .weight_decay = range.weight_decay,
              .rate = range.rate},
             piece);
  }
  return piece;
}

void Optimizer::AddRange(const UpdatedRange& range, const UpdateRange& update, Piece& piece) const {
  switch (range.rule) {
    case OptimizerKind::kAdamW:
      piece.first_pass[UpdateKind::kAdamW].push_back(update);
      return;
    case OptimizerKind::kLion:
      piece.first_pass[UpdateKind::kLion].push_back(update);
      return;
    case OptimizerKind::kSgd:
      piece.first_pass[update.first_moment.given() ? UpdateKind::kSgd : UpdateKind::kApply].push_back(update);
      return;
    case OptimizerKind::kMuon: {
      piece.first_pass[UpdateKind::kMomentum].push_back(update);
      UpdateRange apply = update;
      const Parameter& parameter = sharded_->table.rows()[static_cast<std::size_t>(range.row)];
      apply.gradient_scale = MuonScale(options_, parameter.shape);
      piece.second_pass.push_back({apply, range.row});
      return;
    }
    case OptimizerKind::kAdafactor:
      if (update.second_moment.given()) {
        piece.first_pass[UpdateKind::kRootScale].push_back(update);
      }
      piece.second_pass.push_back({update, range.row});
      return;
  }
}

void Optimizer::Move(const State& to, const State& from, bool with_moments) {
  for (const auto part : {&State::weight, &State::low, &State::first_moment, &State::second_moment}) {
    const bool moment = part == &State::first_moment || part == &State::second_moment;
    if ((to.*part).given() && (with_moments || !moment)) {
      ops_.Copy(to.*part, from.*part);
    }
  }
}

void Optimizer::ForEachPiece(bool with_moments, const std::function<void(const Piece&)>& update) {
  if (options_.host_piece == 0) {
    for (const Piece& piece : pieces_) {
      update(piece);
    }
    return;
  }
  // By slot: when the state of its piece has come, and when it is in host memory again.
  std::array<Event, 2> come;
  std::array<Event, 2> gone;
  gone.fill(device_.RecordEvent());
  const auto fetch = [&](std::size_t i) {
    if (i < pieces_.size()) {
      const Piece& piece = pieces_[i];
      come[i % 2] =
          device_.OnStream(kFromHostStream, gone[i % 2], [&, this] { Move(piece.passing, piece.home, with_moments); });
    }
  };
  fetch(0);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    fetch(i + 1);
    const Piece& piece = pieces_[i];
    device_.StreamWait(come[i % 2]);
    update(piece);
    gone[i % 2] = device_.OnStream(kToHostStream, device_.RecordEvent(),
                                   [&, this] { Move(piece.home, piece.passing, with_moments); });
  }
  for (const Event& event : gone) {
    device_.StreamWait(event);
  }
}

void Optimizer::Step(float learning_rate, float gradient_scale, std::int64_t step) {
  UpdateArgs args{.learning_rate = learning_rate,
                  .beta1 = options_.beta1,
                  .beta2 = options_.beta2,
                  .epsilon = options_.epsilon,
                  .momentum = options_.momentum,
                  .nesterov = options_.nesterov,
                  .step = step,
                  .gradient_scale = gradient_scale};
  if (adafactor_ != nullptr) {
    args.beta2 = Adafactor::SecondBeta(step);
    args.epsilon = Adafactor::kSquareEpsilon;
  }
  if (options_.host_piece == 0) {
    // One call per kind for all shards: fewer launches on a GPU.
    std::map<UpdateKind, std::vector<UpdateRange>> all;
    for (const Piece& piece : pieces_) {
      for (const auto& [kind, ranges] : piece.first_pass) {
        all[kind].insert(all[kind].end(), ranges.begin(), ranges.end());
      }
    }
    for (const auto& [kind, ranges] : all) {
      args.kind = kind;
      ops_.Update(ranges, args);
    }
  } else {
    ForEachPiece(true, [&](const Piece& piece) {
      for (const auto& [kind, ranges] : piece.first_pass) {
        args.kind = kind;
        ops_.Update(ranges, args);
      }
    });
  }
  if (muon_ == nullptr && adafactor_ == nullptr) {
    return;
  }
  if (muon_ != nullptr) {
    muon_->Orthogonalise();
  }
  if (adafactor_ != nullptr) {
    adafactor_->MakeDirections(gradient_scale, step);
  }
  args.kind = UpdateKind::kApply;
  args.gradient_scale = 1;
  args.learning_rate = adafactor_ != nullptr ? adafactor_->Rate(learning_rate, step) : learning_rate;
  ForEachPiece(false, [&](const Piece& piece) {
    std::vector<UpdateRange> ranges;
    for (const PlannedRange& planned : piece.second_pass) {
      ranges.push_back(planned.range);
      if (adafactor_ != nullptr) {
        const DirectionScale scale = adafactor_->ScaleOf(planned.row);
        ranges.back().rate *= scale.rate;
        ranges.back().gradient_scale *= scale.direction;
      }
    }
    ops_.Update(ranges, args);
  });
}

Tensor Optimizer::FirstMoment(std::size_t shard, const UpdatedRange& range) const {
  return range.first_moment < 0 ? Tensor{} : PartOfGiven(first_moment(shard), {range.first_moment, range.count});
}

Tensor Optimizer::SecondMoment(std::size_t shard, const UpdatedRange& range) const {
  return range.second_moment < 0 ? Tensor{} : PartOfGiven(second_moment(shard), {range.second_moment, range.count});
}

const std::vector<FactoredMoments>& Optimizer::factored() const {
  static const std::vector<FactoredMoments> kNone;
  return adafactor_ == nullptr ? kNone : adafactor_->moments();
}

void Optimizer::JoinMasters() {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (low(i).given()) {
      ops_.Join(master(i), shards_[i].weight, low(i));
    }
  }
}

void Optimizer::PublishMasters() {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (low(i).given()) {
      ops_.Split(shards_[i].weight, low(i), master(i));
    }
  }
}

}  // namespace trireme
