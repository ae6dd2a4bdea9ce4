#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

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

// A rank whose loss is a hundred times what it should be at step 20, when the mean is known.
const std::vector<std::string> kLookTwice = {"train.rerun=true", "train.norm_spike=10", "train.steps=24",
                                             "checkpoint.every=0"};

TEST(Rerun, APassingFaultLeavesNoTrace) {
  for (const char* what : {"loss", "nan", "flip-gradient"}) {
    const FaultRun run(kLookTwice);
    const Outcome outcome = run.Run({"--inject", std::string("rank=2,step=20,what=") + what});
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("step 20: a passing fault: ")) << what;
    EXPECT_EQ(run.Digest(), run.UntouchedDigest()) << what;
  }
}

TEST(Rerun, ALastingFaultEndsTheRunAndNamesItsRank) {
  const FaultRun run(kLookTwice);
  const Outcome outcome = run.Run({"--inject", "rank=2,step=20,what=loss,times=9"});
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("step 20: a lasting fault of data rank 1 (ranks 2, 3)"));
}

TEST(Rerun, WithoutAnotherDataRankItSaysThatItCannotTell) {
  const FaultRun run({"train.rerun=true", "train.steps=24", "layout.data=1", "checkpoint.every=0"});
  const Outcome outcome = run.Run({"--inject", "rank=0,step=20,what=loss,times=9"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("the data, or a lasting fault"));
}

// Rank 1's loss is a hundred times what it should be at step 20: every rank sees the spike and does the same.
TEST(SpikeAction, SkipMakesNoUpdate) {
  const FaultRun run({"train.on_spike=skip", "train.steps=24", "checkpoint.every=0"});
  const Outcome outcome = run.Run({"--inject", "rank=2,step=20,what=loss"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("step 20: no update"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("step 21: no update")));
  EXPECT_NE(run.Digest(), run.UntouchedDigest());
}

TEST(SpikeAction, RollbackGoesOnPastTheStep) {
  const FaultRun run({"train.on_spike=rollback", "train.steps=24", "checkpoint.every=4"});
  const Outcome outcome = run.Run({"--inject", "rank=2,step=18,what=loss"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("went back to step 16"));
  EXPECT_THAT(outcome.output, HasSubstr("step 18: skipped, as train.skip_steps says"));
  EXPECT_EQ(run.SavedStep(), 24);
}

TEST(SpikeAction, LowerHalvesTheRateAndAResumeKeepsIt) {
  const FaultRun run({"train.on_spike=lower", "train.steps=24", "checkpoint.every=0"});
  const Outcome outcome = run.Run({"--inject", "rank=2,step=20,what=loss"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("step 20: the learning rate is 0.5 of the schedule's"));
  const Outcome inspected = run.Program({"checkpoint", "inspect", run.folder(), "--json"});
  EXPECT_THAT(inspected.output, HasSubstr("rate_factor"));
}

// One passage of noise in a text that is otherwise easy.
class BadData : public testing::Test {
 protected:
  BadData() {
    std::ofstream file(probe_.recipe() + ".txt");
    for (int i = 0; i < 800; ++i) {
      file << (i == 500 ? "QZ#X!7@WQZ#X!7@W" : "abababababababab");
    }
  }
  std::vector<std::string> Keys(const std::string& more) const {
    return {"data.source=\"" + probe_.recipe() + ".txt\"",
            "data.split=\"100,0,0\"",
            "model.vocabulary=256",
            "optimizer.learning_rate=0.004",
            "optimizer.schedule.kind=constant",
            "train.rerun=true",
            "train.loss_spike=10",
            "train.steps=190",
            "checkpoint.every=0",
            more};
  }
  const FaultRun probe_;
};

TEST_F(BadData, IsToldFromFaultsAndCanBePassedOver) {
  const FaultRun run(Keys("train.norm_spike=0"));
  const Outcome outcome = run.Run();
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("no fault: the data of samples "));
  const std::string hint = "train.skip_steps = \"";
  const std::size_t at = outcome.output.find(hint);
  ASSERT_NE(at, std::string::npos) << outcome.output;
  const std::string step = std::to_string(std::atoi(outcome.output.c_str() + at + hint.size()));
  EXPECT_THAT(outcome.output, HasSubstr("step " + step + ": loss spike"));

  const FaultRun careful(Keys("train.skip_steps=\"" + step + "\""));
  const Outcome second = careful.Run();
  EXPECT_EQ(second.code, 0) << second.output;
  EXPECT_THAT(second.output, HasSubstr("step " + step + ": skipped, as train.skip_steps says"));
  EXPECT_THAT(second.output, Not(HasSubstr("step " + step + ": loss spike")));
  EXPECT_EQ(careful.SavedStep(), 190);
}

TEST(Replicas, AFlippedBitOfAMomentIsFoundWhereMomentsHaveCopies) {
  const FaultRun run({"layout.data=4", "layout.tensor=1", "layout.zero=0", "train.replica_check_every=2"});
  const Outcome outcome = run.Run({"--inject", "rank=3,step=5,phase=forward,what=flip-moment"});
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("step 6: silent corruption"));
  EXPECT_THAT(outcome.output, HasSubstr("differ on rank 3"));
}

TEST(Replicas, AFlippedExponentOfAGradientIsSeenInTheNormOfThatStep) {
  const FaultRun run({"train.norm_spike=10", "train.steps=24", "checkpoint.every=0"});
  const Outcome outcome = run.Run({"--inject", "rank=2,step=20,what=flip-gradient"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, testing::ContainsRegex("step 20: (gradient norm spike|not finite)"));
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
