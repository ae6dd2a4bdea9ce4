#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "base/random.h"
#include "faults/fault_run.h"

namespace trireme {
namespace {

using testing::HasSubstr;

// Kills the run until it is over or `kills` are used up, then lets it end; the number of kills.
int KillUntilItEnds(const FaultRun& run, int kills, std::uint64_t seed) {
  for (int killed = 0; killed < kills; ++killed) {
    const pid_t process = run.Start();
    std::this_thread::sleep_for(
        std::chrono::milliseconds(20 + RandomBelow(seed, static_cast<std::uint64_t>(killed), 300)));
    kill(process, SIGKILL);
    const Outcome outcome = run.Wait(process);
    if (outcome.signal != SIGKILL) {
      EXPECT_EQ(outcome.code, 0) << outcome.output;
      return killed;
    }
  }
  const Outcome last = run.Run();
  EXPECT_EQ(last.code, 0) << last.output;
  return kills;
}

TEST(KillLoop, KilledAtRandomMomentsItEndsWithTheSameBits) {
  const std::vector<std::string> long_run = {"train.steps=300"};
  const std::string untouched = FaultRun(long_run).UntouchedDigest();
  int killed = 0;
  int finished = 0;
  while (killed < Faults().kills && !HasFailure()) {
    const FaultRun run(long_run);
    killed += KillUntilItEnds(run, Faults().kills - killed, static_cast<std::uint64_t>(finished));
    EXPECT_EQ(run.Digest(), untouched) << "run " << finished;
    ++finished;
  }
  std::printf("score: %d kills over %d runs, all ended with the state digest %s\n", killed, finished,
              untouched.c_str());
}

// Only rank 0 writes manifests, renames and prunes.
bool Reaches(int rank, const std::string& point) {
  return rank == 0 || point == "snapshot" || point == "open" || point == "mid-shard" || point == "before-sync" ||
         point == "after-sync";
}

class SavePoints : public testing::TestWithParam<const char*> {};

TEST_P(SavePoints, KilledThereOnAnyRankTheNextStartGoesOn) {
  const std::string point = GetParam();
  const std::string untouched = FaultRun().UntouchedDigest();
  int killed = 0;
  for (int round = 0; round < Faults().rounds; ++round) {
    for (int rank = 0; rank < 4; ++rank) {
      if (!Reaches(rank, point) || (Faults().rounds == 1 && rank != 0 && rank != 3)) {
        continue;
      }
      const FaultRun run;
      const int step = 6 + 2 * (round % 3);  // by then rank 0 has committed an earlier one
      const Outcome outcome = run.Run({"--inject", "rank=" + std::to_string(rank) + ",step=" + std::to_string(step) +
                                                       ",save=" + point + ",what=kill"});
      EXPECT_EQ(outcome.signal, SIGKILL) << outcome.output;
      const Outcome again = run.Run();
      EXPECT_EQ(again.code, 0) << again.output;
      EXPECT_THAT(again.output, HasSubstr("resumed after step"));
      EXPECT_EQ(run.Digest(), untouched);
      ++killed;
    }
  }
  std::printf("score: %d kills at '%s', all went on\n", killed, point.c_str());
}

INSTANTIATE_TEST_SUITE_P(Every, SavePoints,
                         testing::Values("snapshot", "open", "mid-shard", "before-sync", "after-sync",
                                         "before-manifest", "mid-manifest", "before-rename", "after-rename", "prune"),
                         [](const auto& point) {
                           std::string name = point.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace trireme
