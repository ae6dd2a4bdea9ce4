// Laws of mixtures of experts: what one expert, equal experts and permuted experts must be, and law 1 (with 4 and 5) in
// a pairwise cover of all layouts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "parity/layout_space.h"
#include "parity/parity.h"

namespace trireme::parity {
namespace {

// Four experts, two for each token, a shared one with a gate, both losses of the router; a dense layer before.
RunConfig Sparse(RunConfig config) {
  config.model.family = "llama";
  config.model.kv_heads = 12;
  config.model.experts = {.count = 4,
                          .chosen = 2,
                          .ffn = 24,
                          .shared_ffn = 12,
                          .shared_gate = true,
                          .dense_layers = 1,
                          .balance_loss = 0.05,
                          .z_loss = 1e-3};
  config.model = Completed(config.model, true);
  return config;
}

// Few steps: rounding may exchange two experts of nearly equal scores, which is no error.
RunConfig SmallSparse() {
  RunConfig config = Sparse(SmallRun("llama"));
  config.train.steps = std::min(LawSteps(), 8);
  return config;
}

RunConfig WithLayout(const ParallelLayout& layout) {
  RunConfig config = SmallSparse();
  config.layout = layout;
  return config;
}

void ExpectLawOf(const ParallelLayout& layout) {
  SCOPED_TRACE(layout.ToString());
  ExpectLaw(WithLayout(layout));
}

TEST(Experts, TensorRanksTrainAsOne) {
  ExpectLawOf({.tensor = 2});
  ExpectLawOf({.tensor = 3, .sequence_parallel = true});
  ExpectLawOf({.tensor = 2, .sequence_parallel = true, .recompute = Recompute::kFull});
}

TEST(Experts, ContextRanksTrainAsOne) {
  for (const ContextKind kind : {ContextKind::kAllGather, ContextKind::kRing, ContextKind::kUlysses}) {
    ExpectLawOf({.context = 2, .context_kind = kind});
  }
}

TEST(Experts, DataRanksTrainAsOne) {
  for (int zero = 0; zero <= 3; ++zero) {
    ExpectLawOf({.data = 3, .zero = zero});
  }
  ExpectLawOf({.data = 4, .zero = 3, .shard_ranks = 2});
  ExpectLawOf({.data = 2, .zero = 2, .offload = Offload::kFull, .offload_activations = true});
}

TEST(Experts, PipelinesTrainAsOne) {
  ExpectLawOf({.pipeline = 2, .recompute = Recompute::kSelective});
  ExpectLawOf({.tensor = 2, .pipeline = 2, .schedule = "zero_bubble", .sequence_parallel = true});
}

// Adam hides a factor on a gradient: plain SGD with a norm that always clips does not.
TEST(Experts, ExpertGradientsAreNotScaledByRanks) {
  for (const ParallelLayout& layout :
       {ParallelLayout{.tensor = 2, .data = 2}, ParallelLayout{.tensor = 2, .context = 2, .sequence_parallel = true},
        ParallelLayout{.pipeline = 2, .data = 2, .zero = 3}}) {
    RunConfig config = WithLayout(layout);
    config.optimizer.kind = OptimizerKind::kSgd;
    config.optimizer.learning_rate = 0.1;
    config.optimizer.clip = 0.05;
    config.train.steps = 4;
    SCOPED_TRACE(layout.ToString());
    ExpectLaw(config);
  }
}

// Losses of the router are of sequences, not of what a rank or a micro batch happens to hold.
TEST(Experts, ABalanceLossDoesNotDependOnTheLayout) {
  RunConfig config = SmallSparse();
  config.model.experts.balance_loss = 1;
  config.model.experts.z_loss = 0.1;
  config.layout.micro_batch = 4;
  config.train.steps = 5;
  const Outcome whole = Train({.config = config, .steps = 5});
  for (const ParallelLayout& layout :
       {ParallelLayout{.micro_batch = 1}, ParallelLayout{.micro_batch = 2}, ParallelLayout{.micro_batch = 12},
        ParallelLayout{.tensor = 2, .data = 3, .sequence_parallel = true, .micro_batch = 2},
        ParallelLayout{.tensor = 2, .micro_batch = 2}, ParallelLayout{.context = 2, .data = 2, .micro_batch = 3}}) {
    config.layout = layout;
    SCOPED_TRACE(layout.ToString());
    ExpectSame(whole, Train({.config = config, .steps = 5}), 1e-5);
  }
  config.layout = {};
  config.model.experts.balance_loss = 0;
  EXPECT_THAT(Differences(whole, Train({.config = config, .steps = 5}), 1e-5), testing::Not(testing::IsEmpty()))
      << "the loss has no effect";
}

class ExpertCover : public testing::TestWithParam<Choice> {};
INSTANTIATE_TEST_SUITE_P(Pairwise, ExpertCover, testing::ValuesIn(PairwiseCover()),
                         [](const auto& choice) { return NameOf(choice.param); });

TEST_P(ExpertCover, TrainsAsOneRank) {
  RunConfig config = Sparse(ConfigOf(GetParam()));
  config.train.steps = std::min(LawSteps(), 5);
  SCOPED_TRACE(ToToml(config));
  ExpectLaw(config);
}

}  // namespace
}  // namespace trireme::parity
