// Laws 1, 3 and 5 for every optimizer: state and exchanges depend on the layout, the update does not.
#include "parity/parity.h"

namespace trireme::parity {
namespace {

RunConfig RunOf(const std::string& optimizer) {
  RunConfig config = SmallRun("llama");
  config.optimizer.kind = FromWord<OptimizerKind>("optimizer", optimizer);
  config.model.layers = 4;
  config.optimizer.tables.rate = 0.5;
  config.optimizer.vectors.weight_decay = 0.01;
  return config;
}

std::vector<ParallelLayout> OptimizerLayouts() {
  return {{.tensor = 2},
          {.data = 2, .zero = 0},
          {.data = 3, .zero = 1},
          {.pipeline = 2, .data = 2, .zero = 2},
          {.tensor = 2, .data = 2, .zero = 3, .sequence_parallel = true},
          {.tensor = 2, .pipeline = 2, .data = 2, .zero = 3},
          {.tensor = 2, .data = 4, .zero = 1, .shard_ranks = 2}};
}

class OptimizerLaws : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, OptimizerLaws, testing::Values("sgd", "adafactor", "muon"),
                         [](const auto& name) { return name.param; });

// Muon's iterations multiply rounding in the directions of the smallest singular values, up to 3.4445^5 times.
TEST_P(OptimizerLaws, LayoutsTrainAsOneRank) {
  for (const ParallelLayout& layout : OptimizerLayouts()) {
    RunConfig config = RunOf(GetParam());
    config.layout = layout;
    SCOPED_TRACE(layout.ToString());
    ExpectLaw(config);
  }
}

// The sign of an average that is only rounding is another one under another layout; such an element moves by the rate,
// whatever it is. Losses hardly depend on it.
TEST(LawsOfOptimizers, LionsLossesAreThoseOfOneRank) {
  RunConfig config = RunOf("lion");
  config.optimizer.learning_rate = 2e-4;
  const Outcome one = Train({.config = OneRank(config), .steps = LawSteps()});
  for (const ParallelLayout& layout : OptimizerLayouts()) {
    config.layout = layout;
    SCOPED_TRACE(layout.ToString());
    const Outcome many = Train({.config = config, .steps = LawSteps()});
    EXPECT_THAT(many.accounting, testing::IsEmpty());
    EXPECT_TRUE(many.tied_copies_equal);
    for (std::size_t step = 0; step < one.losses.size(); ++step) {
      EXPECT_NEAR(many.losses[step] / one.losses[step], 1.0, 2e-5) << step;
    }
  }
}

// At full rank factors are no smaller than the matrices, which are then reduced whole.
TEST(LawsOfOptimizers, PowerSgdOfFullRankTrainsAsOneRank) {
  for (const ParallelLayout& layout :
       {ParallelLayout{.data = 2, .zero = 0}, ParallelLayout{.data = 3, .zero = 1},
        ParallelLayout{.tensor = 2, .pipeline = 2, .data = 2, .zero = 1, .sequence_parallel = true}}) {
    RunConfig config = RunOf("adamw");
    config.optimizer.powersgd_rank = 1000;
    config.layout = layout;
    SCOPED_TRACE(layout.ToString());
    ExpectLaw(config);
  }
}

TEST(LawsOfOptimizers, PowerSgdOfLowRankLearnsAndKeepsCopiesEqual) {
  RunConfig config = RunOf("adamw");
  config.optimizer.powersgd_rank = 4;
  config.layout = {.data = 2, .zero = 0};
  const Outcome outcome = Train({.config = config, .steps = std::max(LawSteps(), 10)});
  EXPECT_THAT(outcome.accounting, testing::IsEmpty());
  EXPECT_TRUE(outcome.tied_copies_equal);
  EXPECT_LT(outcome.losses.back(), outcome.losses.front());
}

TEST(LawsOfOptimizers, MuonInBFloat16LearnsAsInFloat32) {
  RunConfig config = RunOf("muon");
  const Outcome whole = Train({.config = config, .steps = std::max(LawSteps(), 2)});
  config.train.dtype = "bf16";
  config.layout = {.tensor = 2, .data = 2, .zero = 1};
  const Outcome half = Train({.config = config, .steps = std::max(LawSteps(), 2)});
  EXPECT_THAT(half.accounting, testing::IsEmpty());
  EXPECT_LT(half.losses.back(), half.losses.front());
  EXPECT_NEAR(half.losses.back() / whole.losses.back(), 1.0, 2e-2);
}

}  // namespace
}  // namespace trireme::parity
