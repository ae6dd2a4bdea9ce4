#include <algorithm>
#include <thread>
#include <vector>

#include "base/random.h"
#include "train/zero_shard.h"

namespace trireme {
namespace {

// Values of a parameter's elements [global, global + count).
void Draw(const Parameter& parameter, std::uint64_t key, std::int64_t global, std::int64_t count, float* to) {
  if (parameter.initializer != Initializer::kNormal) {
    std::fill(to, to + count, parameter.initializer == Initializer::kOne ? 1.0F : 0.0F);
    return;
  }
  const auto deviation = static_cast<float>(parameter.deviation);
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = deviation * RandomNormal(key, static_cast<std::uint64_t>(global + i));
  }
}

void DrawRuns(const Parameter& parameter, std::uint64_t seed, const std::vector<SliceRun>& runs, float* to) {
  const std::uint64_t key = RandomKey(seed, parameter.name);
  std::int64_t elements = 0;
  for (const SliceRun& run : runs) {
    elements += run.count;
  }
  // Large tables take seconds on one core; small ones are not worth a thread.
  const auto workers = elements < (std::int64_t{1} << 22) ? 1 : std::max(1U, std::thread::hardware_concurrency());
  const auto work = [&](unsigned worker) {
    for (const SliceRun& run : runs) {
      const std::int64_t first = run.count * worker / workers;
      const std::int64_t last = run.count * (worker + 1) / workers;
      Draw(parameter, key, run.global + first, last - first, to + run.local + first);
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned worker = 1; worker < workers; ++worker) {
    threads.emplace_back(work, worker);
  }
  work(0);
}

}  // namespace

void ZeroShard::DrawInitialWeights(std::uint64_t seed) {
  std::vector<float> host;
  for (const OwnedState& state : State()) {
    if (state.kind != StateKind::kMaster) {
      continue;
    }
    host.assign(static_cast<std::size_t>(state.values.count()), 0.0F);
    DrawRuns(table_.rows()[static_cast<std::size_t>(state.row)], seed, state.runs, host.data());
    device_.CopyFromHost(state.values.data, host.data(), state.values.bytes());
  }
  Publish();
}

}  // namespace trireme
