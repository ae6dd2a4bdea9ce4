// Laws on attention that stores its weights (train.attention = "plain").
#include <gtest/gtest.h>

#include <algorithm>

#include "parity/parity.h"

namespace trireme::parity {
namespace {

RunConfig PlainRun(const std::string& family) {
  RunConfig config = SmallRun(family);
  config.train.attention = AttentionEngine::kPlain;
  config.train.steps = std::max(2, LawSteps() / 2);
  return config;
}

TEST(PlainAttention, TrainsAsFusedAttentionDoes) {
  for (const char* family : {"gpt2", "llama", "bloom", "gemma2"}) {
    SCOPED_TRACE(family);
    RunConfig config = OneRank(PlainRun(family));
    const Outcome plain = Train({.config = config, .steps = 3, .validate = true});
    config.train.attention = AttentionEngine::kFlash;
    const Outcome fused = Train({.config = config, .steps = 3, .validate = true});
    ExpectSame(fused, plain, 1e-5);
    EXPECT_NEAR(fused.validation, plain.validation, 1e-5 * fused.validation);
  }
}

TEST(PlainAttention, TrainsAsOneRankUnderEveryLayout) {
  for (const char* family : {"gpt2", "llama"}) {
    for (const ParallelLayout& layout :
         {ParallelLayout{.tensor = 2, .pipeline = 2, .data = 2, .zero = 3, .sequence_parallel = true},
          ParallelLayout{.tensor = 2, .data = 2, .zero = 1, .recompute = Recompute::kSelective, .micro_batch = 2},
          ParallelLayout{.pipeline = 2, .schedule = "zero_bubble", .recompute = Recompute::kFull},
          ParallelLayout{.context = 2, .data = 2, .zero = 2, .context_kind = ContextKind::kUlysses},
          ParallelLayout{.tensor = 2,
          .context = 2,
          .recompute = Recompute::kSelective,
          .context_kind = TestsUseGpu() ? ContextKind::kUlysses : ContextKind::kAllGather}}) {
      RunConfig config = PlainRun(family);
      config.layout = layout;
      SCOPED_TRACE(std::string(family) + " " + layout.ToString());
      ExpectLaw(config);
    }
  }
}

TEST(PlainAttention, DrawsTheDropoutOfFusedAttention) {
  RunConfig config = PlainRun("gpt2");
  config.model.attention_dropout = 0.3;
  config.layout = {.tensor = 2, .data = 2, .zero = 1};
  ExpectLaw(config);
  const Outcome plain = Train({.config = config, .steps = 3});
  if (!TestsUseGpu()) {
    config.train.attention = AttentionEngine::kFlash;
    ExpectSame(Train({.config = config, .steps = 3}), plain, 1e-5);
  }
}

// B * H * T * T numbers of a block's kept memory, unless attention is computed again.
TEST(PlainAttention, KeepsOneNumberForEachQueryAndKey) {
  RunConfig config = SmallRun("gpt2");
  const auto activations = [&](AttentionEngine attention, Recompute recompute) {
    config.train.attention = attention;
    config.layout.recompute = recompute;
    return MemoryOfStage(StageOfRun(config, 0, config.batch.global).description())[MemoryKind::kActivations];
  };
  const std::int64_t pairs =
      config.layout.micro_batch * config.model.heads * config.model.sequence * config.model.sequence;
  EXPECT_GE(
      activations(AttentionEngine::kPlain, Recompute::kNone) - activations(AttentionEngine::kFlash, Recompute::kNone),
      config.model.layers * pairs * SizeOf(DType::kFloat32));
  EXPECT_EQ(activations(AttentionEngine::kPlain, Recompute::kSelective),
            activations(AttentionEngine::kFlash, Recompute::kSelective));
}

}  // namespace
}  // namespace trireme::parity
