#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faults/fault_run.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kDrill = {"--inject", "rank=1,step=5,what=nan"};

TEST(NonFinite, SkippedOnEveryRankAndNamed) {
  const FaultRun run;
  const Outcome outcome = run.Run(kDrill);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("step 5: not finite: rank 1: gradient of '"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("step 6: not finite")));
}

TEST(NonFinite, StopsEveryRank) {
  const FaultRun run({"train.on_nonfinite=stop"});
  const Outcome outcome = run.Run(kDrill);
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("step 5: not finite: rank 1: gradient of '"));
}

TEST(NonFinite, GoingBackLeavesNoTraceOfAPassingFault) {
  const FaultRun run({"train.on_nonfinite=rollback"});
  const Outcome outcome = run.Run(kDrill);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("went back to step 4"));
  EXPECT_EQ(run.Digest(), run.UntouchedDigest());
}

TEST(NonFinite, ALastingFaultEndsTheRunAfterGoingBackThreeTimes) {
  const FaultRun run({"train.on_nonfinite=rollback"});
  const Outcome outcome = run.Run({"--inject", "rank=1,step=5,what=nan,times=9"});
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("after going back 3 times"));
}

TEST(Replicas, AFlippedBitOfOneCopyIsFoundAndItsRankNamed) {
  const FaultRun run({"layout.data=4", "layout.tensor=1", "layout.zero=0", "train.replica_check_every=2"});
  const Outcome outcome = run.Run({"--inject", "rank=2,step=5,phase=forward,what=flip"});
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("step 6: silent corruption"));
  EXPECT_THAT(outcome.output, HasSubstr("differ on rank 2"));
}

TEST(Replicas, SoundCopiesPass) {
  for (const char* zero : {"layout.zero=0", "layout.zero=1", "layout.zero=2", "layout.zero=3"}) {
    const FaultRun run({zero, "train.replica_check_every=1"});
    const Outcome outcome = run.Run();
    EXPECT_EQ(outcome.code, 0) << outcome.output;
  }
}

}  // namespace
}  // namespace trireme
