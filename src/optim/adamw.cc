#include "optim/adamw.h"

#include <algorithm>
#include <utility>

namespace trireme {

AdamW::State AdamW::State::Range(std::int64_t first, std::int64_t count) const {
  const auto part = [&](const Tensor& whole) { return whole.given() ? whole.Range(first, count) : Tensor{}; };
  return {.weight = part(weight),
          .low = part(low),
          .first_moment = part(first_moment),
          .second_moment = part(second_moment)};
}

AdamW::AdamW(Arena& arena, const AdamWOptions& options, std::vector<OwnedShard> shards)
    : device_(arena.device()), ops_(device_.ops()), options_(options), shards_(std::move(shards)) {
  const bool on_host = options_.host_piece > 0;
  std::array<State, 2> slots;
  if (on_host) {
    for (State& slot : slots) {
      slot = Allocate(arena, MemoryKind::kOptimizer, options_.host_piece);
      if (options_.host_weights) {
        slot.weight = arena.Allocate({MemoryKind::kOptimizer, shards_.front().weight.dtype, options_.host_piece});
      }
    }
  } else {
    pieces_.emplace_back();
  }
  for (const OwnedShard& shard : shards_) {
    const std::int64_t count = shard.weight.count();
    states_.push_back(Allocate(arena, on_host ? MemoryKind::kHost : MemoryKind::kOptimizer, count));
    states_.back().weight = options_.host_weights ? shard.weight : Tensor{};
    if (on_host) {
      AddPieces(shard, states_.back(), slots);
    } else {
      const std::vector<AdamWRange> ranges = RangesOf(shard, states_.back(), 0, count);
      pieces_.front().ranges.insert(pieces_.front().ranges.end(), ranges.begin(), ranges.end());
    }
  }
}

AdamW::State AdamW::Allocate(Arena& arena, MemoryKind kind, std::int64_t count) const {
  const DType working = shards_.empty() ? DType::kFloat32 : shards_.front().weight.dtype;
  const OptimizerTensors tensors(kind, count, working, options_.moments);
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

void AdamW::AddPieces(const OwnedShard& shard, const State& state, const std::array<State, 2>& slots) {
  for (std::int64_t first = 0; first < shard.weight.count(); first += options_.host_piece) {
    const std::int64_t count = std::min(options_.host_piece, shard.weight.count() - first);
    const State passing = slots[pieces_.size() % 2].Range(0, count);
    pieces_.push_back(
        {.home = state.Range(first, count), .passing = passing, .ranges = RangesOf(shard, passing, first, count)});
  }
}

std::vector<AdamWRange> AdamW::RangesOf(const OwnedShard& shard, const State& state, std::int64_t first,
                                        std::int64_t count) const {
  std::vector<AdamWRange> ranges;
  for (const DecayRange& range : shard.ranges) {
    const std::int64_t begin = std::max(range.first, first);
    const std::int64_t end = std::min(range.first + range.count, first + count);
    if (begin < end) {
      const State part = state.Range(begin - first, end - begin);
      ranges.push_back({.weight = part.weight.given() ? part.weight : shard.weight.Range(begin, end - begin),
                        .low = part.low,
                        .first_moment = part.first_moment,
                        .second_moment = part.second_moment,
                        .gradient = shard.gradient.Range(begin, end - begin),
                        .weight_decay = range.decays ? options_.weight_decay : 0.0F});
    }
  }
  return ranges;
}

void AdamW::Move(const State& to, const State& from) {
  for (const auto part : {&State::weight, &State::low, &State::first_moment, &State::second_moment}) {
    if ((to.*part).given()) {
      ops_.Copy(to.*part, from.*part);
    }
  }
}

void AdamW::Step(float learning_rate, float gradient_scale, std::int64_t step) {
  const AdamWArgs args{.learning_rate = learning_rate,
                       .beta1 = options_.beta1,
                       .beta2 = options_.beta2,
                       .epsilon = options_.epsilon,
                       .step = step,
                       .gradient_scale = gradient_scale};
  if (options_.host_piece == 0) {
    ops_.AdamW(pieces_.front().ranges, args);
    return;
  }
  // By slot: when the state of its piece has come, and when it is in host memory again.
  std::array<Event, 2> come;
  std::array<Event, 2> gone;
  gone.fill(device_.RecordEvent());
  const auto fetch = [&](std::size_t i) {
    if (i < pieces_.size()) {
      const Piece& piece = pieces_[i];
      come[i % 2] = device_.OnStream(kFromHostStream, gone[i % 2], [this, &piece] { Move(piece.passing, piece.home); });
    }
  };
  fetch(0);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    fetch(i + 1);
    const Piece& piece = pieces_[i];
    device_.StreamWait(come[i % 2]);
    ops_.AdamW(piece.ranges, args);
    gone[i % 2] =
        device_.OnStream(kToHostStream, device_.RecordEvent(), [this, &piece] { Move(piece.home, piece.passing); });
  }
  for (const Event& event : gone) {
    device_.StreamWait(event);
  }
}

void AdamW::JoinMasters() {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (low(i).given()) {
      ops_.Join(master(i), shards_[i].weight, low(i));
    }
  }
}

void AdamW::PublishMasters() {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (low(i).given()) {
      ops_.Split(shards_[i].weight, low(i), master(i));
    }
  }
}

}  // namespace trireme
