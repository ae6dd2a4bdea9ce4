// Laws on features that the pairwise cover does not range over.
#include "parity/parity.h"

namespace trireme::parity {
namespace {

TEST(Laws, RampedBatchesTrainAsOneRank) {
  RunConfig config = SmallRun("gpt2");
  config.layout = {.pipeline = 2, .data = 2, .zero = 2};
  config.batch = {.global = 12, .ramp_start = 4, .ramp_increment = 4, .ramp_samples = 24};
  config.train.steps = std::max(LawSteps(), 6);
  ExpectLaw(config);
}

TEST(Laws, DropoutIsDrawnAlikeByEveryLayout) {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
    RunConfig config = SmallRun("bloom");
    config.model.dropout = 0.3;
    config.layout = {
        .tensor = 2, .pipeline = 2, .data = 2, .zero = 3, .sequence_parallel = true, .recompute = recompute};
    ExpectLaw(config);
  }
}

TEST(Laws, DropoutChangesTheLoss) {
  RunConfig config = SmallRun("gpt2");
  const Outcome plain = Train({.config = config, .steps = 2});
  config.model.dropout = 0.3;
  const Outcome dropped = Train({.config = config, .steps = 2});
  EXPECT_NE(plain.losses.front(), dropped.losses.front());
}

TEST(Laws, DocumentMasksTrainAsOneRank) {
  RunConfig config = SmallRun("llama");
  config.data.document_masks = true;
  config.layout = {.tensor = 2, .pipeline = 2, .data = 2, .zero = 2};
  ExpectLaw(config);
}

TEST(Laws, ZLossTrainsAsOneRankAndIsFelt) {
  RunConfig config = SmallRun("gpt2");
  const Outcome plain = Train({.config = config, .steps = 3});
  config.train.z_loss = 1e-2;
  config.layout = {.tensor = 4, .data = 2};
  ExpectLaw(config);
  const Outcome pulled = Train({.config = config, .steps = 3});
  EXPECT_NE(plain.gradient_norms.front(), pulled.gradient_norms.front());
}

TEST(Laws, UnevenStagesTrainAsOneRank) {
  for (const char* partition : {"0,3,1", "2,2,0", "1,1,2"}) {
    SCOPED_TRACE(partition);
    RunConfig config = SmallRun("gpt2");
    config.layout = {.pipeline = 3, .zero = 1, .partition = partition};
    ExpectLaw(config);
  }
}

TEST(Laws, ClippingCountsTiedParametersOnce) {
  RunConfig config = SmallRun("gpt2");
  config.optimizer.clip = 0.05;  // always active
  config.layout = {.tensor = 2, .pipeline = 2, .data = 2, .zero = 1};
  ExpectLaw(config);
}

TEST(Laws, TheSameLayoutTwiceGivesTheSameBits) {
  RunConfig config = SmallRun("llama");
  config.layout = {.tensor = 2, .pipeline = 2, .data = 2, .zero = 3, .schedule = "zero_bubble"};
  config.train.deterministic = true;  // a GPU needs to be asked
  const Outcome once = Train({.config = config, .steps = LawSteps()});
  const Outcome again = Train({.config = config, .steps = LawSteps()});
  EXPECT_EQ(once.losses, again.losses);
  EXPECT_EQ(once.gradient_norms, again.gradient_norms);
  EXPECT_EQ(once.parameters, again.parameters);
}

TEST(Laws, BrainFloatStaysWithinItsRounding) {
  for (const char* family : {"gpt2", "bloom", "llama"}) {
    SCOPED_TRACE(family);
    RunConfig config = SmallRun(family);
    config.train.dtype = "bf16";
    config.layout = {.tensor = 2, .pipeline = 2, .data = 2, .zero = 1, .sequence_parallel = true};
    const Outcome one = Train({.config = OneRank(config), .steps = LawSteps()});
    const Outcome many = Train({.config = config, .steps = LawSteps()});
    EXPECT_THAT(many.accounting, testing::IsEmpty());
    EXPECT_TRUE(many.tied_copies_equal);
    for (std::size_t step = 0; step < one.losses.size(); ++step) {
      EXPECT_NEAR(many.losses[step] / one.losses[step], 1.0, 2e-2) << step;
    }
  }
}

TEST(Laws, RampNeverAsksForMoreMemoryThanPlanned) {
  RunConfig config = SmallRun("gpt2");
  config.layout = {.pipeline = 2, .schedule = "gpipe"};
  config.batch = {.global = 8, .ramp_start = 2, .ramp_increment = 2, .ramp_samples = 8};
  const Outcome outcome = Train({.config = config, .steps = 5});
  EXPECT_THAT(outcome.accounting, testing::IsEmpty());
}

}  // namespace
}  // namespace trireme::parity
