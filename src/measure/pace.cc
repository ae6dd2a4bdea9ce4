#include "measure/pace.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/core_wait.h"
#include "device/device.h"
#include "device/host_cores.h"
#include "measure/all_ranks.h"
#include "measure/group_probe.h"
#include "measure/probe_tensors.h"

namespace trireme {
namespace {

constexpr std::int64_t kPaceExtent = 256;
constexpr double kPaceSeconds = 0.12;  // that repetitions take together
constexpr double kPaceRepeats = 0.03;

double MedianOfProducts(RankContext& context) {
  ProbeTensors tensors(context.device);
  const MatmulArgs product{.a = tensors.Make(DType::kFloat32, {kPaceExtent, kPaceExtent}),
                           .b = tensors.Make(DType::kFloat32, {kPaceExtent, kPaceExtent}),
                           .c = tensors.Make(DType::kFloat32, {kPaceExtent, kPaceExtent})};
  context.device.ops().Matmul(product);
  context.world.Barrier();
  std::vector<double> seconds;
  for (double sum = 0; sum < kPaceSeconds; sum += seconds.back()) {
    const auto start = std::chrono::steady_clock::now();
    context.device.ops().Matmul(product);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

// 0 where it fails: other ranks wait for the number, and a run does without.
Pace MeanOfThreads(int threads) {
  std::vector<double> ranks(static_cast<std::size_t>(threads));
  double waited = 0;
  try {
    RunThreadRanks(threads, {.kind = "cpu", .threads = 1}, [&](RankContext& context) {
      const CoreWait wait;
      ranks[static_cast<std::size_t>(context.world.rank())] = MedianOfProducts(context);
      if (context.world.rank() == 0) {
        waited = wait.Share(threads);
      }
    });
  } catch (const Error& error) {
    std::fprintf(stderr, "trireme: the pace of the cores is not measured: %s\n", error.what());
    return {};
  }
  return {.seconds = std::accumulate(ranks.begin(), ranks.end(), 0.0) / threads, .waited = waited};
}

}  // namespace

Pace MeasurePace() { return MeanOfThreads(ReadHostCores().usable()); }

Pace MeasurePace(RankContext& context) {
  context.world.Barrier();
  const auto largest_wait = [&](double own) {
    const std::vector<double> all = NumbersOfRanks(context, own);
    return *std::max_element(all.begin(), all.end());
  };
  if (!LaunchedByMpi()) {
    const Pace own = context.world.rank() == 0 ? MeasurePace() : Pace{};
    const double seconds = NumbersOfRanks(context, own.seconds).front();
    return {.seconds = seconds, .waited = largest_wait(own.waited)};
  }
  const RankPlace place = PlaceOf(context);
  const std::vector<double> nodes = NumbersOfRanks(context, place.node);
  const Pace own = place.local < RanksAtOnce(context) ? MeanOfThreads(context.threads) : Pace{.seconds = kIdleRank};
  const double seconds = SlowestMachine(NumbersOfRanks(context, own.seconds), nodes);
  return {.seconds = seconds, .waited = largest_wait(own.waited)};
}

double PaceRatio(const MeasuredRates& measured, double pace_now) {
  if (measured.pace <= 0 || pace_now <= 0) {
    return 1;
  }
  const double ratio = std::clamp(pace_now / measured.pace, 0.5, 2.0);
  return std::abs(ratio - 1) < kPaceRepeats ? 1 : ratio;
}

MeasuredRates AtPace(MeasuredRates measured, double times) {
  for (RankRates& rates : measured.ranks) {
    rates = Slowed(rates, times);
  }
  for (GroupRates& rates : measured.groups) {
    for (RateLaw* const law : {&rates.all_reduce, &rates.all_gather, &rates.reduce_scatter, &rates.message}) {
      *law = {.call = law->call * times, .rate = law->rate / times};
    }
  }
  measured.step *= times;
  return measured;
}

MeasuredRates WhileBusy(MeasuredRates measured, double waited) {
  if (waited < kQuietShare) {
    return measured;
  }
  const double times = 1 / std::sqrt(1 - waited);
  measured = AtPace(std::move(measured), times);
  measured.spread = (1 + measured.spread) * times - 1;
  measured.others = std::max(measured.others, waited);
  return measured;
}

}  // namespace trireme
