// What safety costs, as ratios within one run: the stall of a save over one copy of the state, steps beside a save over
// steps without, and the ledger's and the fingerprints' share of a step. docs/reference/checkpoint_format.md has
// numbers.
#include <benchmark/benchmark.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "comm/call_check.h"
#include "comm/ledger.h"
#include "operate/run_checkpoints.h"
#include "operate/training_loop.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

RunConfig ConfigOf(std::int64_t width) {
  RunConfig config;
  config.model = Completed({.layers = 4, .hidden = 64 * width, .heads = 4, .vocabulary = 256, .sequence = 128});
  config.batch.global = 2;
  config.train.device = "cpu";
  config.train.steps = 1'000'000;
  return config;
}

class ScratchFolder {
 public:
  ScratchFolder()
      : path_((std::filesystem::temp_directory_path() / fmt::format("trireme-safety-{}", getpid())).string()) {}
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// One plain copy of the state to memory that has been touched: what a snapshot cannot do without.
double CopySeconds(const std::vector<OwnedState>& states, std::vector<char>& to) {
  const auto start = Clock::now();
  std::size_t at = 0;
  for (const OwnedState& each : states) {
    std::memcpy(to.data() + at, each.values.data, static_cast<std::size_t>(each.values.bytes()));
    at += static_cast<std::size_t>(each.values.bytes());
  }
  benchmark::DoNotOptimize(to.data());
  return Since(start);
}

struct SaveTimes {
  std::vector<double> alone, beside;  // steps
  std::vector<double> copies, stalls, saves;
};

// Steps alone, a copy, a save and the steps beside it; copies and saves both follow a step.
void TimeSave(Trainer& trainer, RunCheckpoints& checkpoints, std::vector<char>& to, SaveTimes& times) {
  for (int i = 0; i < 10; ++i) {
    times.alone.push_back(trainer.Step().seconds);
  }
  times.copies.push_back(CopySeconds(trainer.JoinState(), to));
  trainer.Step();
  const std::int64_t step = trainer.progress().step;
  const auto start = Clock::now();
  checkpoints.Save({{.step = step}}, trainer.JoinState());
  times.stalls.push_back(Since(start));
  while (checkpoints.last_committed() < step && Since(start) < 60) {
    const double seconds = trainer.Step().seconds;
    // A step that the save did not outlast was not all beside it.
    if (checkpoints.last_committed() < step || times.beside.empty()) {
      times.beside.push_back(seconds);
    }
  }
  times.saves.push_back(Since(start));
  checkpoints.Settle();
}

void Saves(benchmark::State& state) {
  const RunConfig config = ConfigOf(state.range(0));
  const ScratchFolder folder;
  const auto source = OpenRunSource(config, "train");
  RunThreadRanks(1, {.kind = "cpu", .threads = 1}, [&](RankContext& context) {
    Trainer trainer(config, context, {.train = source.get()});
    RunCheckpoints checkpoints({.folder = folder.path(), .config = config}, context.world, context.device,
                               trainer.table());
    trainer.Step();
    checkpoints.Reserve(trainer.JoinState());
    std::size_t bytes = 0;
    for (const OwnedState& each : trainer.JoinState()) {
      bytes += static_cast<std::size_t>(each.values.bytes());
    }
    std::vector<char> to(bytes, 2);
    SaveTimes times;
    for (auto _ : state) {
      TimeSave(trainer, checkpoints, to, times);
    }
    const double copy = Median(times.copies);
    const double stall = Median(times.stalls);
    state.counters["state_MB"] = static_cast<double>(bytes) / 1e6;
    state.counters["copy_ms"] = copy * 1e3;
    state.counters["stall_ms"] = stall * 1e3;
    state.counters["stall/copy"] = stall / copy;
    state.counters["save_s"] = Median(times.saves);
    state.counters["stall/save_%"] = 100 * stall / Median(times.saves);
    state.counters["step_ms"] = Median(times.alone) * 1e3;
    state.counters["beside/alone"] = Median(times.beside) / Median(times.alone);
    state.counters["steps_beside"] = static_cast<double>(times.beside.size());
  });
}
BENCHMARK(Saves)->Arg(1)->Arg(8)->Arg(16)->Unit(benchmark::kMillisecond);

// Every collective and phase that one rank of four records in a step, over the step.
void Ledgers(benchmark::State& state) {
  RunConfig config = ConfigOf(state.range(0));
  config.layout.tensor = 2;
  config.layout.data = 2;
  const ScratchFolder folder;
  const auto source = OpenRunSource(config, "train");
  double step_seconds = 0;
  std::uint64_t beats = 0;
  constexpr int kSteps = 5;
  RunThreadRanks(4, {.kind = "cpu", .threads = 1}, [&](RankContext& context) {
    Ledger ledger(folder.path(), context.world.rank(), config.layout);
    context.world.set_observer(&ledger);
    Trainer trainer(config, context, {.train = source.get()});
    trainer.set_ledger(&ledger);
    trainer.Step();
    const std::string path = folder.path() + "/" + LedgerName(0);
    const std::uint64_t before = ReadLedger(path, LedgerPart::kHead).beats;
    std::vector<double> times;
    for (int i = 0; i < kSteps; ++i) {
      times.push_back(trainer.Step().seconds);
    }
    if (context.world.rank() == 0) {
      beats = (ReadLedger(path, LedgerPart::kHead).beats - before) / kSteps;
      step_seconds = Median(times);
    }
    context.world.set_observer(nullptr);
  });
  Ledger ledger(folder.path(), 0, config.layout);
  const CollectiveCall call{.kind = CollectiveKind::kAllReduce, .count = 1024};
  std::int64_t number = 0;
  double seconds = 0;
  for (auto _ : state) {
    const auto start = Clock::now();
    ledger.Started("data", number, call);
    benchmark::DoNotOptimize(Fingerprint(call));
    ledger.Ended("data", number++);
    seconds += Since(start);
  }
  // A collective is two beats; a phase is one and costs less than a collective.
  const double each = seconds / static_cast<double>(std::max<std::int64_t>(number, 1)) / 2;
  state.counters["beats_a_step"] = static_cast<double>(beats);
  state.counters["step_ms"] = step_seconds * 1e3;
  state.counters["share_of_step_%"] = 100 * each * static_cast<double>(beats) / step_seconds;
}
BENCHMARK(Ledgers)->Arg(1)->Arg(8);

}  // namespace
}  // namespace trireme
