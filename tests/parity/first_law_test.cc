// Law 1 on single features: each layout trains as one rank does.
#include "parity/parity.h"

namespace trireme::parity {
namespace {

class Families : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Families, testing::Values("gpt2", "bloom", "llama", "qwen3"),
                         [](const auto& family) { return family.param; });

TEST_P(Families, OneRankLearns) {
  RunConfig config = SmallRun(GetParam());
  const Outcome outcome = Train({.config = config, .steps = std::max(LawSteps(), 10)});
  EXPECT_THAT(outcome.accounting, testing::IsEmpty());
  EXPECT_LT(outcome.losses.back(), outcome.losses.front());
}

TEST_P(Families, TensorRanksTrainAsOne) {
  RunConfig config = SmallRun(GetParam());
  config.layout.tensor = 2;
  ExpectLaw(config);
}

TEST_P(Families, SequenceParallelRanksTrainAsOne) {
  RunConfig config = SmallRun(GetParam());
  config.layout.tensor = 3;
  config.layout.sequence_parallel = true;
  ExpectLaw(config);
}

TEST_P(Families, PipelineRanksTrainAsOne) {
  RunConfig config = SmallRun(GetParam());
  config.layout.pipeline = 2;
  ExpectLaw(config);
}

TEST_P(Families, DataRanksTrainAsOne) {
  for (int zero = 0; zero <= 3; ++zero) {
    SCOPED_TRACE(zero);
    RunConfig config = SmallRun(GetParam());
    config.layout.data = 2;
    config.layout.zero = zero;
    ExpectLaw(config);
  }
}

TEST_P(Families, HybridShardsTrainAsOne) {
  for (const ParallelLayout& layout :
       {ParallelLayout{.data = 4, .zero = 1, .shard_ranks = 2}, ParallelLayout{.data = 4, .zero = 2, .shard_ranks = 2},
        ParallelLayout{.tensor = 2, .data = 4, .zero = 3, .sequence_parallel = true, .shard_ranks = 2},
        ParallelLayout{.pipeline = 2, .data = 3, .zero = 3, .offload = Offload::kFull, .shard_ranks = 1}}) {
    RunConfig config = SmallRun(GetParam());
    config.layout = layout;
    SCOPED_TRACE(layout.ToString());
    ExpectLaw(config);
  }
}

TEST_P(Families, EveryScheduleTrainsAsOne) {
  for (const ScheduleKind& kind : ScheduleKinds()) {
    SCOPED_TRACE(kind.name);
    RunConfig config = SmallRun(GetParam());
    config.layout.pipeline = 2;
    config.layout.schedule = kind.name;
    config.layout.chunks = kind.least_chunks;
    ExpectLaw(config);
  }
}

TEST_P(Families, RecomputationChangesNothing) {
  for (const Recompute recompute : {Recompute::kLight, Recompute::kSelective, Recompute::kFull}) {
    SCOPED_TRACE(Name(recompute));
    RunConfig config = SmallRun(GetParam());
    config.layout.tensor = 2;
    config.layout.sequence_parallel = true;
    config.layout.recompute = recompute;
    ExpectLaw(config);
    config.layout.recompute_layers = 1;
    ExpectLaw(config);
  }
}

TEST_P(Families, AllAxesTogetherTrainAsOne) {
  RunConfig config = SmallRun(GetParam());
  config.layout = {.tensor = 2, .pipeline = 2, .data = 2, .zero = 1};
  ExpectLaw(config);
}

// The other families: what they add meets each axis once.
class MoreFamilies : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, MoreFamilies,
                         testing::Values("mistral", "qwen2", "gemma2", "gemma3", "olmo2", "phi3", "nemotron",
                                         "gpt_neox", "opt", "mpt", "smollm3", "olmo3", "granite"),
                         [](const auto& family) { return family.param; });

TEST_P(MoreFamilies, TensorAndPipelineRanksTrainAsOne) {
  RunConfig config = SmallRun(GetParam());
  config.layout = {.tensor = 2, .pipeline = 2, .recompute = Recompute::kSelective};
  config.layout.schedule = "1f1b";
  ExpectLaw(config);
}

TEST_P(MoreFamilies, SequenceParallelRanksTrainAsOne) {
  RunConfig config = SmallRun(GetParam());
  config.layout.tensor = 3;
  config.layout.sequence_parallel = true;
  config.layout.recompute = Recompute::kLight;
  ExpectLaw(config);
}

TEST_P(MoreFamilies, AWholeRecomputedZeroBubblePipelineTrainsAsOne) {
  RunConfig config = SmallRun(GetParam());
  config.layout = {.pipeline = 2, .data = 2, .zero = 3};
  config.layout.schedule = "zero_bubble";
  ExpectLaw(config);
  config.layout.recompute = Recompute::kFull;
  config.layout.sequence_parallel = true;
  config.layout.tensor = 2;
  config.layout.data = 1;
  ExpectLaw(config);
}

}  // namespace
}  // namespace trireme::parity
