// Collectives between thread ranks: algorithm bandwidth (payload over time) and bus bandwidth (what a link would carry,
// 2 (n-1)/n of it), the two words as nccl-tests uses them. "host us" is how long a call keeps the rank's thread. "of
// copy" compares the bytes that the collective must read and write with what std::memcpy by as many threads moves on
// this machine. TRIREME_TEST_DEVICE=cuda runs ranks on GPUs, NCCL_MULTI_RANK_GPU_ENABLE=1 lets them share one over
// NCCL.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "comm/device_call_watch.h"
#include "comm/rank_runner.h"
#include "measure/rates.h"

namespace trireme {
namespace {

// What a rank does once, over `whole` (ranks * part elements) and `part`.
using Collective = std::function<void(Communicator& world, const Tensor& whole, const Tensor& part)>;

double CopyBytesPerSecond(std::int64_t bytes, int threads) {
  static std::map<std::pair<std::int64_t, int>, double> measured;  // one thread runs the benchmarks
  const auto [entry, is_new] = measured.try_emplace({bytes, threads}, 0);
  if (is_new) {
    entry->second = MeasureCopy(bytes, threads).gigabytes_per_second * 1e9;
  }
  return entry->second;
}

// Seconds of one call.
struct CallTimes {
  double seconds = 0;  // until the result is there
  double host = 0;     // until the call returns
};

std::string DeviceKind() {
  const char* const kind = std::getenv("TRIREME_TEST_DEVICE");
  return kind == nullptr ? "cpu" : kind;
}

// With `count` elements in the whole tensor.
CallTimes TimesOf(const Collective& collective, std::int64_t count, int ranks) {
  const int repeats = count <= 64 * 4096 ? 100 : 10;
  constexpr std::chrono::milliseconds kPause{50};  // the watch over a GPU's collectives gives their events back
  CallTimes times;
  RunThreadRanks(ranks, {.kind = DeviceKind()}, [&](RankContext& context) {
    const Tensor whole{context.device.Allocate(count * 4), DType::kFloat32, {count}};
    const Tensor part{context.device.Allocate(count / ranks * 4), DType::kFloat32, {count / ranks}};
    context.device.ops().Fill(whole, 0);
    context.device.ops().Fill(part, 0);
    context.world.ConnectNeighbours(Neighbours::kRing);  // for messages
    for (int i = 0; i < repeats; ++i) {
      collective(context.world, whole, part);
    }
    context.device.Synchronize();
    std::this_thread::sleep_for(kPause);
    context.world.Barrier();
    const auto start = std::chrono::steady_clock::now();
    const auto since = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / repeats;
    };
    for (int i = 0; i < repeats; ++i) {
      collective(context.world, whole, part);
    }
    const double host = since();
    context.device.Synchronize();
    context.world.Barrier();
    if (context.world.rank() == 0) {
      times = {.seconds = since(), .host = host};
    }
    context.device.Free(whole.data);
    context.device.Free(part.data);
  });
  return times;
}

// `touched`: bytes that all ranks together must read and write, for each byte of the whole tensor and rank.
void Measure(benchmark::State& state, const Collective& collective, double touched, double bus_share) {
  const std::int64_t count = state.range(0) * 4096;
  const int ranks = static_cast<int>(state.range(1));
  CallTimes times;
  for (auto _ : state) {
    times = TimesOf(collective, count, ranks);
    state.SetIterationTime(times.seconds);
  }
  const double seconds = times.seconds;
  const double bytes = static_cast<double>(count) * 4;
  state.counters["host us"] = times.host * 1e6;
  state.counters["algorithm B/s"] = bytes / seconds;
  state.counters["bus B/s"] = bytes / seconds * bus_share * (ranks - 1) / ranks;
  state.counters["of copy"] = bytes * ranks * touched / seconds / CopyBytesPerSecond(count * 4, ranks);
}

void AllReduce(benchmark::State& state) {
  Measure(
      state, [](Communicator& world, const Tensor& whole, const Tensor&) { world.AllReduce(whole, ReduceOp::kSum); }, 2,
      2);
}
void AllGather(benchmark::State& state) {
  Measure(
      state, [](Communicator& world, const Tensor& whole, const Tensor& part) { world.AllGather(part, whole); }, 2, 1);
}
void ReduceScatter(benchmark::State& state) {
  const double ranks = static_cast<double>(state.range(1));
  Measure(
      state, [](Communicator& world, const Tensor& whole, const Tensor& part) { world.ReduceScatter(whole, part); },
      1 + 1 / ranks, 1);
}
// Every rank sends `part` to the next one and receives `whole`'s beginning from the one before.
void Message(benchmark::State& state) {
  const auto pass = [](Communicator& world, const Tensor& whole, const Tensor& part) {
    world.Send(part, (world.rank() + 1) % world.size(), 0);
    world.Receive(whole.Range(0, part.count()), (world.rank() + world.size() - 1) % world.size(), 0);
  };
  Measure(state, pass, 2.0 / static_cast<double>(state.range(1)), 1);
}
// To start ranks takes longer than their calls: once is enough.
BENCHMARK(AllReduce)->ArgsProduct({{1, 64, 1024, 8192}, {2, 4, 8}})->UseManualTime()->Iterations(1);
BENCHMARK(AllGather)->ArgsProduct({{1, 64, 1024, 8192}, {2, 4}})->UseManualTime()->Iterations(1);
BENCHMARK(ReduceScatter)->ArgsProduct({{1, 64, 1024, 8192}, {2, 4}})->UseManualTime()->Iterations(1);
BENCHMARK(Message)->ArgsProduct({{1, 64, 1024}, {2, 4}})->UseManualTime()->Iterations(1);

// What the watch over collectives of devices adds to each call of two ranks: the comparison and the entry that it
// follows. No device takes part.
void Watch(benchmark::State& state) {
  constexpr int kCalls = 1000;
  const CollectiveCall call = {.kind = CollectiveKind::kAllReduce, .count = state.range(0)};
  const std::unique_ptr<Device> device = MakeCpuDevice({});
  double seconds = 0;
  for (auto _ : state) {
    DeviceCallWatch watch({.say = [](const std::string&) {}, .give_up = [](int, const std::string&) {}});
    const auto make_calls = [&](int rank) {
      const auto channel = watch.Join({.name = "group", .key = 1, .rank = rank, .ranks = {0, 1}}, *device);
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kCalls; ++i) {
        watch.Compare(*channel, call);
        DeviceCallWatch::Follow(*channel, {.call = call, .sequence = i});
      }
      const double taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kCalls;
      watch.Leave(*channel);
      return taken;
    };
    const std::jthread other([&] { make_calls(1); });
    seconds = make_calls(0);
    state.SetIterationTime(seconds);
  }
  state.counters["host us"] = seconds * 1e6;
}
BENCHMARK(Watch)->Arg(1)->UseManualTime()->Iterations(20);

}  // namespace
}  // namespace trireme
