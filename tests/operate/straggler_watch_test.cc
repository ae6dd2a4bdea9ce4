// The rule that names stragglers, over thousands of steps of noisy runs: how often it is wrong, and how soon right.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>

#include "operate/stragglers.h"

namespace trireme {
namespace {

constexpr int kMeetings = 8;           // a step, of every group
constexpr double kStepSeconds = 0.25;  // without noise
constexpr std::size_t kRecorded = 24;  // steps

// Shares of pieces of work that take longer, with a tail so heavy that it has no variance: as on machines of their own,
// and as where other programs run too.
constexpr double kQuiet = 0.005;
constexpr double kBusy = 0.02;

struct Slowed {
  int rank = -1;
  double factor = 1;
};

// Ranks that do equal work and meet in their groups, on machines that do other things too.
class NoisyRun {
 public:
  NoisyRun(const ParallelLayout& layout, std::uint64_t seed, double noise)
      : layout_(layout), random_(seed), noise_(noise), calls_(Count()) {}

  void Step(const Slowed& slowed) {
    ++step_;
    for (int meeting = 0; meeting < kMeetings; ++meeting) {
      DisturbSomebody();
      double last = now_;
      for (std::size_t rank = 0; rank < Count(); ++rank) {
        const bool slow = static_cast<int>(rank) == slowed.rank;
        const double arrival = now_ + Work(static_cast<int>(rank)) * (slow ? slowed.factor : 1);
        Record(rank, arrival);
        last = std::max(last, arrival);
      }
      now_ = last;
    }
  }

  std::int64_t step() const { return step_; }
  double now() const { return now_; }
  double Uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  std::vector<RankRecord> Records() const {
    std::vector<RankRecord> records(Count());
    for (std::size_t rank = 0; rank < Count(); ++rank) {
      records[rank].rank = static_cast<int>(rank);
      records[rank].layout = layout_;
      records[rank].calls.assign(calls_[rank].begin(), calls_[rank].end());
    }
    return records;
  }

 private:
  std::size_t Count() const { return static_cast<std::size_t>(layout_.ranks()); }

  // Twice a minute another program takes a core or a part of it from one rank, for a second on average.
  void DisturbSomebody() {
    if (Uniform() < 2.0 / 60 * kStepSeconds / kMeetings) {
      disturbed_ = {.rank = static_cast<int>(Uniform() * static_cast<double>(Count())), .factor = 1.3 + 2 * Uniform()};
      disturbed_until_ = now_ - std::log(1 - Uniform());
    }
  }

  // Seconds until the next meeting.
  double Work(int rank) {
    double factor = 1 + 0.1 * Uniform();
    if (Uniform() < noise_) {
      factor += std::min(std::pow(1 - Uniform(), -1 / 1.5), 100.0) - 1;
    }
    factor *= rank == disturbed_.rank && now_ < disturbed_until_ ? disturbed_.factor : 1;
    return factor * kStepSeconds / kMeetings;
  }

  void Record(std::size_t rank, double time) {
    calls_[rank].push_back({.group = layout_.tensor > 1 ? "tensor" : "data",
                            .sequence = sequence_ + static_cast<std::int64_t>(calls_[rank].size()),
                            .call = {.kind = CollectiveKind::kAllReduce, .count = 8},
                            .step = step_,
                            .started_ns = static_cast<std::int64_t>(time * 1e9)});
    if (calls_[rank].size() > kRecorded * kMeetings) {
      calls_[rank].pop_front();
      sequence_ += rank + 1 == Count() ? 1 : 0;
    }
  }

  ParallelLayout layout_;
  std::mt19937_64 random_;
  double noise_;
  std::vector<std::deque<LedgerCall>> calls_;  // by rank
  std::int64_t sequence_ = 0;                  // of the oldest
  std::int64_t step_ = 0;
  double now_ = 1000;
  Slowed disturbed_;
  double disturbed_until_ = 0;
};

// Looks every second of the run's time, as the supervisor does.
class Watcher {
 public:
  // Ranks that are named after this step.
  std::vector<Straggler> After(const NoisyRun& run) {
    if (run.now() < next_) {
      return {};
    }
    next_ = run.now() + 1;
    return watch_.Check(run.now(), run.step(), run.Records());
  }

 private:
  StragglerWatch watch_;
  double next_ = 0;
};

struct Ranks {
  int tensor = 1;
  int data = 1;
};
void PrintTo(const Ranks& ranks, std::ostream* out) { *out << "tensor " << ranks.tensor << ", data " << ranks.data; }

ParallelLayout Degrees(const Ranks& ranks) {
  ParallelLayout layout;
  layout.tensor = ranks.tensor;
  layout.data = ranks.data;
  return layout;
}

class StragglerWatchTest : public testing::TestWithParam<Ranks> {};

TEST_P(StragglerWatchTest, SaysNothingOfCleanRunsHoweverNoisy) {
  constexpr int kRuns = 100;
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    NoisyRun run(Degrees(GetParam()), seed, seed % 2 == 0 ? kQuiet : kBusy);
    Watcher watcher;
    bool named = false;
    while (run.step() < 200) {
      run.Step({});
      named = !watcher.After(run).empty() || named;
    }
    wrong += named ? 1 : 0;
  }
  EXPECT_LT(wrong, 0.01 * kRuns);
}

TEST_P(StragglerWatchTest, NamesARankThatIsThirtyPerCentSlowerWithinFiftySteps) {
  constexpr int kRuns = 100;
  constexpr std::int64_t kLimit = 50;
  int right = 0;
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    NoisyRun run(Degrees(GetParam()), 1000 + seed, kQuiet);
    Watcher watcher;
    const std::int64_t onset = 30 + static_cast<std::int64_t>(run.Uniform() * 20);
    const int slow = static_cast<int>(run.Uniform() * Degrees(GetParam()).ranks());
    bool named = false;
    while (run.step() < onset + kLimit && !named) {
      run.Step({.rank = slow, .factor = run.step() < onset ? 1 : 1.3});
      for (const Straggler& each : watcher.After(run)) {
        named = named || each.rank == slow;
      }
    }
    right += named ? 1 : 0;
  }
  EXPECT_GE(right, 0.95 * kRuns);
}

INSTANTIATE_TEST_SUITE_P(Layouts, StragglerWatchTest, testing::Values(Ranks{2, 2}, Ranks{4, 1}, Ranks{1, 4}),
                         [](const auto& layout) {
                           return "tensor" + std::to_string(layout.param.tensor) + "data" +
                                  std::to_string(layout.param.data);
                         });

// Slow for long enough that some looks find nothing but that.
TEST(StragglerWatch, ForgetsARankThatWasSlowForAWhile) {
  NoisyRun run(Degrees({1, 2}), 5, kQuiet);
  StragglerWatch watch;
  int found = 0;
  while (run.step() < 200) {
    run.Step({.rank = 1, .factor = run.step() >= 100 && run.step() < 125 ? 1.5 : 1.0});
    found += static_cast<int>(FindStragglers(run.Records(), 0.1).size());
    EXPECT_TRUE(watch.Check(run.now(), run.step(), run.Records()).empty()) << run.step();
  }
  EXPECT_GT(found, 0);
}

TEST(StragglerWatch, NamesARankOnce) {
  NoisyRun run(Degrees({1, 2}), 6, kQuiet);
  StragglerWatch watch;
  int named = 0;
  while (run.step() < 200) {
    run.Step({.rank = 1, .factor = 1.5});
    named += static_cast<int>(watch.Check(run.now(), run.step(), run.Records()).size());
  }
  EXPECT_EQ(named, 1);
}

}  // namespace
}  // namespace trireme
