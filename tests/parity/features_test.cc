// Laws on features that the pairwise cover does not range over.
#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "comm/rank_runner.h"
#include "cost/gradient_places.h"
#include "data/dataset/indexed_dataset_writer.h"
#include "operate/run_source.h"
#include "operate/training_loop.h"
#include "parity/parity.h"
#include "parity/short_documents.h"
#include "scratch_directory.h"

namespace trireme::parity {
namespace {

// The host encodes fp8 slowly.
int Float8Steps() { return std::min(LawSteps(), 5); }

// A small model whose extents suit fp8 on two tensor ranks.
RunConfig SmallFloat8Run(const std::string& family) {
  RunConfig config = SmallRun(family);
  config.model.hidden = 64;
  config.model.heads = 4;
  config.model.kv_heads = family == "llama" ? 2 : 4;
  config.model.ffn = 128;
  config.model.sequence = 16;
  config.train.dtype = "fp8";
  return config;
}

TEST(Laws, RampedBatchesTrainAsOneRank) {
  RunConfig config = SmallRun("gpt2");
  config.layout = {.pipeline = 2, .data = 2, .zero = 2};
  config.batch = {.global = 12, .ramp_start = 4, .ramp_increment = 4, .ramp_samples = 24};
  config.train.steps = std::max(LawSteps(), 6);
  ExpectLaw(config);
}

// One micro batch per step: gradients lie over activations. The one rank of the law has a step's samples one after
// another and no such overlap.
TEST(Laws, GradientsOverActivationsTrainAsSeparateOnes) {
  for (const std::string family : {"gpt2", "bloom", "llama"}) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kLight, Recompute::kFull}) {
      RunConfig config = SmallRun(family);
      config.batch.global = 4;
      for (const ParallelLayout& layout :
           {ParallelLayout{.micro_batch = 4}, ParallelLayout{.data = 2, .zero = 0, .micro_batch = 2},
            ParallelLayout{.tensor = 2, .data = 2, .zero = 1, .sequence_parallel = true, .micro_batch = 2}}) {
        config.layout = layout;
        config.layout.recompute = recompute;
        SCOPED_TRACE(family + " " + config.layout.ToString());
        const StageOfRun stage(config, 0, config.batch.global);
        ASSERT_TRUE(GradientPlaces(stage.description()).over_activations);
        ExpectLaw(config);
      }
    }
  }
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

TEST(Laws, DropoutOfAttentionIsDrawnAlikeByEveryLayoutAndIsFelt) {
  for (const char* family : {"gpt2", "llama"}) {
    SCOPED_TRACE(family);
    RunConfig config = SmallRun(family);
    config.train.steps = std::max(2, LawSteps() / 2);
    const Outcome without = Train({.config = OneRank(config), .steps = 1});
    config.model.attention_dropout = 0.3;
    config.train.attention = TestsUseGpu() ? AttentionEngine::kPlain : AttentionEngine::kFlash;
    EXPECT_NE(Train({.config = OneRank(config), .steps = 1}).losses, without.losses);
    for (const ParallelLayout& layout :
         {ParallelLayout{.tensor = 2, .pipeline = 2, .data = 2, .zero = 1, .sequence_parallel = true},
          ParallelLayout{.tensor = 3, .recompute = Recompute::kSelective},
          ParallelLayout{.data = 3, .zero = 3, .recompute = Recompute::kFull, .micro_batch = 2}}) {
      config.layout = layout;
      ExpectLaw(config);
    }
  }
}

TEST(Laws, DropoutChangesTheLoss) {
  RunConfig config = SmallRun("gpt2");
  const Outcome plain = Train({.config = config, .steps = 2});
  config.model.dropout = 0.3;
  const Outcome dropped = Train({.config = config, .steps = 2});
  EXPECT_NE(plain.losses.front(), dropped.losses.front());
}

TEST(Laws, DocumentAndPaddingMasksTrainAsOneRank) {
  const ScratchDirectory folder;
  RunConfig config = SmallRun("llama");
  config.data.source = ShortDocuments(folder);
  config.data.split = "50,50,0";
  for (const auto& [documents, padding] : {std::pair{true, false}, {false, true}, {true, true}}) {
    SCOPED_TRACE(fmt::format("documents {}, padding {}", documents, padding));
    config.data.document_masks = documents;
    config.data.padding_masks = padding;
    config.layout = {.tensor = 2, .pipeline = 2, .data = 2, .zero = 2};
    ExpectLaw(config);
    config.layout = {.pipeline = 2, .data = 3, .zero = 3, .schedule = "zero_bubble", .micro_batch = 2};
    ExpectLaw(config);
  }
}

// Conversations of a question of 1 to 4 tokens and an answer of 1 to 5.
std::string ShortConversations(const ScratchDirectory& folder) {
  IndexedDatasetWriter writer(folder / "talks", TokenKind::kUInt16);
  std::uint64_t drawn = 0;
  for (int document = 0; document < 90; ++document) {
    for (const int most : {4, 5}) {
      std::vector<std::int32_t> tokens(1 + static_cast<std::size_t>(document % most));
      std::generate(tokens.begin(), tokens.end(),
                    [&] { return static_cast<std::int32_t>(RandomBelow(3, drawn++, 90)); });
      writer.AddSequence(tokens);
    }
    writer.EndDocument();
  }
  writer.Finish();
  return folder / "talks.bin";
}

TEST(Laws, AnswersAloneTrainAsOneRank) {
  const ScratchDirectory folder;
  RunConfig config = SmallRun("qwen3");
  config.data.source = ShortConversations(folder);
  config.data.split = "50,50,0";
  config.data.answers_only = true;
  config.data.document_masks = true;
  config.layout = {.tensor = 2, .pipeline = 2, .data = 2, .zero = 2};
  ExpectLaw(config);
  config.data.document_masks = false;
  config.layout = {.pipeline = 2, .data = 3, .zero = 3, .micro_batch = 2};
  ExpectLaw(config);
}

TEST(Laws, PaddingHasNoPartInTheLoss) {
  const ScratchDirectory folder;
  RunConfig config = SmallRun("gpt2");
  config.model.vocabulary = 256;
  config.data.split = "1,0,0";
  config.data.padding_masks = true;
  config.batch.global = 1;
  const auto first_step = [&](const std::string& text) {
    config.data.source = folder / "text";
    WriteBytes(config.data.source, text);
    Outcome outcome;
    const auto source = OpenRunSource(config, "train");
    RunThreadRanks(1, {.kind = "cpu"}, [&](RankContext& context) {
      Trainer trainer(config, context, {.train = source.get()});
      const StepResult result = trainer.Step();
      outcome.losses = {result.loss};
      outcome.gradient_norms = {result.gradient_norm};
    });
    return outcome;
  };
  // One sample of 5 targets and 7 of padding: the same as a model that is 5 long, whatever pads it.
  const Outcome padded = first_step("abcdef");
  config.model.sequence = 5;
  config.data.padding_masks = false;
  const Outcome exact = first_step("abcdef");
  EXPECT_NEAR(padded.losses[0], exact.losses[0], 1e-6);
  EXPECT_NEAR(padded.gradient_norms[0], exact.gradient_norms[0], 1e-5);
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

TEST(Laws, ANormBehindTheEmbeddingTrainsAsOneRankAndIsFelt) {
  for (const auto& [family, choice] : {std::pair{"gpt2", EmbeddingNormChoice::kYes},
                                       {"llama", EmbeddingNormChoice::kYes},
                                       {"bloom", EmbeddingNormChoice::kNo}}) {
    SCOPED_TRACE(family);
    RunConfig config = SmallRun(family);
    config.train.steps = std::max(2, LawSteps() / 2);
    const Outcome usual = Train({.config = OneRank(config), .steps = 1});
    config.model.embedding_norm_choice = choice;
    config.model = Completed(config.model, true);
    EXPECT_NE(Train({.config = OneRank(config), .steps = 1}).losses, usual.losses);
    for (const ParallelLayout& layout :
         {ParallelLayout{.tensor = 2, .pipeline = 2, .data = 2, .zero = 1, .sequence_parallel = true},
          ParallelLayout{.pipeline = 2, .data = 2, .zero = 3}}) {
      config.layout = layout;
      ExpectLaw(config);
    }
  }
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

// Embedding and head are two chunks of one rank: both add to the same gradient of the table.
TEST(Laws, TiedTablesOfAVShapedPipelineTrainAsOneRank) {
  for (const int zero : {0, 1, 2, 3}) {
    RunConfig config = SmallRun("gpt2");
    config.layout = {.pipeline = 2, .data = 2, .zero = zero, .schedule = "zero_bubble_v", .chunks = 2};
    SCOPED_TRACE(config.layout.ToString());
    ExpectLaw(config);
  }
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

// Half or a quarter of the bytes of every reduction, and gradients within their rounding of the whole ones.
TEST(Laws, GradientsSentInFewerBitsStayWithinTheirRounding) {
  RunConfig config = SmallRun("gpt2");
  const int steps = std::max(2, LawSteps() / 2);
  const Outcome one = Train({.config = OneRank(config), .steps = steps});
  for (const ParallelLayout& layout :
       {ParallelLayout{.data = 2, .zero = 0, .micro_batch = 6}, ParallelLayout{.tensor = 2, .data = 3, .zero = 1},
        ParallelLayout{.pipeline = 2, .data = 2, .zero = 2}, ParallelLayout{.data = 4, .zero = 3, .shard_ranks = 2}}) {
    for (const WireFormat sent : {WireFormat::kBFloat16, WireFormat::kInt8}) {
      config.layout = layout;
      config.layout.reduce = sent;
      SCOPED_TRACE(config.layout.ToString());
      const Outcome many = Train({.config = config, .steps = steps});
      EXPECT_THAT(many.accounting, testing::IsEmpty());
      EXPECT_TRUE(many.tied_copies_equal);
      EXPECT_NE(many.gradient_norms, one.gradient_norms);
      for (std::size_t step = 0; step < one.losses.size(); ++step) {
        EXPECT_NEAR(many.losses[step] / one.losses[step], 1.0, 1e-3) << step;
        EXPECT_NEAR(many.gradient_norms[step] / one.gradient_norms[step], 1.0, 4e-3) << step;
      }
    }
  }
}

// What is rounded does not depend on how many ranks share it: any number of them trains alike, near to exact weights.
TEST(Laws, WeightsGatheredInFewerBitsTrainAlikeOnAnyNumberOfRanks) {
  RunConfig config = SmallRun("llama");
  config.model.vocabulary = 96;  // no rows of padding, whose number depends on the tensor degree
  const int steps = std::max(2, LawSteps() / 2);
  const Outcome one = Train({.config = OneRank(config), .steps = steps});
  for (const WireFormat sent : {WireFormat::kBFloat16, WireFormat::kInt8}) {
    config.layout = {.data = 2, .zero = 3, .gather = sent};
    const Outcome two = Train({.config = config, .steps = steps});
    EXPECT_THAT(two.accounting, testing::IsEmpty());
    EXPECT_NE(two.losses, one.losses);
    for (std::size_t step = 0; step < one.losses.size(); ++step) {
      EXPECT_NEAR(two.losses[step] / one.losses[step], 1.0, 5e-3) << step;
    }
    for (const ParallelLayout& layout :
         {ParallelLayout{.data = 3, .zero = 3}, ParallelLayout{.pipeline = 2, .data = 4, .zero = 3, .shard_ranks = 2},
          ParallelLayout{.data = 2, .zero = 3, .schedule = "1f1b", .recompute = Recompute::kFull, .micro_batch = 3},
          ParallelLayout{.data = 2, .zero = 3, .offload = Offload::kFull}}) {
      config.layout = layout;
      config.layout.gather = sent;
      SCOPED_TRACE(config.layout.ToString());
      const Outcome many = Train({.config = config, .steps = steps});
      EXPECT_THAT(many.accounting, testing::IsEmpty());
      EXPECT_TRUE(many.tied_copies_equal);
      for (std::size_t step = 0; step < two.losses.size(); ++step) {
        EXPECT_NEAR(many.losses[step] / two.losses[step], 1.0, 1e-3) << step;
      }
    }
  }
}

// Parameters that stay whole change no number, and whole ones are not gathered.
TEST(Laws, ParametersThatStayWholeTrainAsOneRank) {
  for (const char* family : {"gpt2", "llama"}) {
    for (const std::int64_t whole_below : {49, 3000, 1'000'000}) {  // vectors, some matrices, everything
      RunConfig config = SmallRun(family);
      config.layout = {.tensor = 2, .data = 2, .zero = 3, .sequence_parallel = true, .whole_below = whole_below};
      ExpectLaw(config);
      config.layout = {.pipeline = 2, .data = 3, .zero = 3, .schedule = "zero_bubble", .whole_below = whole_below};
      ExpectLaw(config);
      config.layout = {.data = 4, .zero = 3, .offload = Offload::kFull, .shard_ranks = 2, .whole_below = whole_below};
      ExpectLaw(config);
    }
  }
}

// Scales are taken over what a rank holds, so that layouts differ by fp8's rounding of the smallest values.
TEST(Laws, Float8StaysWithinItsRounding) {
  const auto layouts = {
      ParallelLayout{.tensor = 2, .pipeline = 2, .data = 2, .zero = 3, .sequence_parallel = true},
      ParallelLayout{.pipeline = 2, .schedule = "zero_bubble", .recompute = Recompute::kLight},
      ParallelLayout{.tensor = 2, .recompute = Recompute::kSelective},
      ParallelLayout{.data = 2, .zero = 2, .recompute = Recompute::kFull},
  };
  for (const char* family : {"gpt2", "llama"}) {
    RunConfig config = SmallFloat8Run(family);
    const Outcome one = Train({.config = OneRank(config), .steps = Float8Steps()});
    for (const ParallelLayout& layout : layouts) {
      config.layout = layout;
      SCOPED_TRACE(std::string(family) + ", " + layout.ToString());
      const Outcome many = Train({.config = config, .steps = Float8Steps()});
      EXPECT_THAT(many.accounting, testing::IsEmpty());
      EXPECT_TRUE(many.tied_copies_equal);
      for (std::size_t step = 0; step < one.losses.size(); ++step) {
        EXPECT_NEAR(many.losses[step] / one.losses[step], 1.0, 3e-2) << step;
      }
    }
  }
}

TEST(Laws, Float8IsFeltAndTrains) {
  RunConfig config = SmallFloat8Run("gpt2");
  const int steps = std::max(2, Float8Steps());
  const Outcome products = Train({.config = config, .steps = steps});
  config.train.dtype = "bf16";
  const Outcome plain = Train({.config = config, .steps = steps});
  EXPECT_NE(products.losses, plain.losses);
  EXPECT_LT(products.losses.back(), products.losses.front());
  EXPECT_NEAR(products.losses.back() / plain.losses.back(), 1.0, 5e-2);
}

// The second forward leaves out the last product, but not the fp8 copy that the weight's gradient reads.
TEST(Laws, Float8BlocksThatAreRecomputedWholeGiveTheSameBits) {
  for (const char* family : {"gpt2", "llama"}) {
    RunConfig config = SmallFloat8Run(family);
    config.train.deterministic = true;
    config.layout = {.recompute = Recompute::kNone};
    const Outcome kept = Train({.config = config, .steps = Float8Steps()});
    config.layout = {.recompute = Recompute::kFull};
    const Outcome again = Train({.config = config, .steps = Float8Steps()});
    EXPECT_EQ(again.losses, kept.losses);
    EXPECT_EQ(again.parameters, kept.parameters);
  }
}

// With ZeRO 3 every micro batch copies the weights for itself.
TEST(Laws, Float8CopiesOfWeightsMadeOnceAStepGiveTheSameBits) {
  const auto layouts = {ParallelLayout{.micro_batch = 48},
                        ParallelLayout{.pipeline = 2, .schedule = "zero_bubble", .micro_batch = 24}};
  for (const ParallelLayout& layout : layouts) {
    SCOPED_TRACE(layout.ToString());
    RunConfig config = SmallFloat8Run("gpt2");
    config.batch.global = 96;
    config.train.deterministic = true;
    config.layout = layout;
    const int steps = std::min(Float8Steps(), 2);
    EXPECT_TRUE(StageOfRun(config, 0, config.batch.global).description().sizes.float8_weights);
    const Outcome once = Train({.config = config, .steps = steps, .validate = true});
    config.layout.zero = 3;
    EXPECT_FALSE(StageOfRun(config, 0, config.batch.global).description().sizes.float8_weights);
    const Outcome each = Train({.config = config, .steps = steps, .validate = true});
    EXPECT_THAT(once.accounting, testing::IsEmpty());
    EXPECT_EQ(once.losses, each.losses);
    EXPECT_EQ(once.validation, each.validation);
    EXPECT_EQ(once.parameters, each.parameters);
  }
}

TEST(Laws, WeightsThatMicroBatchesSharePackedGiveTheSameBits) {
  const auto layouts = {ParallelLayout{.micro_batch = 2}, ParallelLayout{.data = 2, .recompute = Recompute::kFull},
                        ParallelLayout{.tensor = 2, .pipeline = 2, .schedule = "zero_bubble"}};
  for (const char* dtype : {"fp32", "bf16"}) {
    for (const ParallelLayout& layout : layouts) {
      SCOPED_TRACE(dtype + (", " + layout.ToString()));
      RunConfig config = SmallRun("gpt2");
      config.train.dtype = dtype;
      config.train.deterministic = true;
      config.layout = layout;
      ASSERT_GT(MostMicroBatches(config), 1);
      const Outcome shared = Train({.config = config, .steps = 4, .validate = true});
      const Outcome each = Train({.config = config, .steps = 4, .validate = true, .keeps_packed_weights = false});
      EXPECT_EQ(shared.losses, each.losses);
      EXPECT_EQ(shared.validation, each.validation);
      EXPECT_EQ(shared.parameters, each.parameters);
    }
  }
}

// The second one's weights may come to lie where the first one's did.
TEST(Laws, ARunAfterAnotherOnOneDevicePacksItsOwnWeights) {
  RunConfig config = SmallRun("gpt2");
  config.layout.micro_batch = 2;
  ASSERT_GT(MostMicroBatches(config), 1);
  const std::unique_ptr<SampleSource> source = OpenRunSource(config, "train");
  const auto train = [&](RankContext& context, std::int64_t seed) {
    RunConfig own = config;
    own.train.seed = seed;
    std::vector<double> losses;
    std::int64_t held = 0;
    {
      Trainer trainer(own, context, {.train = source.get()});
      losses = {trainer.Step().loss, trainer.Step().loss};
      held = context.device.internal_bytes();
    }
    EXPECT_LT(context.device.internal_bytes(), held) << "packed weights go with their trainer";
    return losses;
  };
  std::vector<double> alone;
  RunThreadRanks(1, {.kind = "cpu"}, [&](RankContext& context) { alone = train(context, 2); });
  RunThreadRanks(1, {.kind = "cpu"}, [&](RankContext& context) {
    EXPECT_NE(train(context, 1), alone);
    EXPECT_EQ(train(context, 2), alone);
    EXPECT_EQ(train(context, 2), alone);
  });
}

TEST(Laws, ProductsThatStayInBf16TrainAsTheRest) {
  RunConfig config = SmallFloat8Run("llama");
  config.train.deterministic = true;
  const int steps = std::min(Float8Steps(), 3);
  config.train.fp8_products = "none";
  const Outcome none = Train({.config = config, .steps = steps});
  config.train.dtype = "bf16";
  EXPECT_EQ(none.parameters, Train({.config = config, .steps = steps}).parameters);
  config.train.dtype = "fp8";
  for (const char* products : {"qkv,ffn_out", "attention_out,ffn_in"}) {
    config.train.fp8_products = products;
    const Outcome one = Train({.config = OneRank(config), .steps = steps});
    EXPECT_NE(one.losses, none.losses);
    for (const ParallelLayout& layout :
         {ParallelLayout{.tensor = 2, .data = 2, .zero = 3, .sequence_parallel = true},
          ParallelLayout{.pipeline = 2, .schedule = "zero_bubble"}, ParallelLayout{.recompute = Recompute::kLight}}) {
      config.layout = layout;
      SCOPED_TRACE(std::string(products) + ", " + layout.ToString());
      const Outcome many = Train({.config = config, .steps = steps});
      EXPECT_THAT(many.accounting, testing::IsEmpty());
      for (std::size_t step = 0; step < one.losses.size(); ++step) {
        EXPECT_NEAR(many.losses[step] / one.losses[step], 1.0, 3e-2) << step;
      }
    }
    config.layout = {};
  }
}

TEST(Laws, Float8GivesTheSameBitsTwice) {
  RunConfig config = SmallFloat8Run("llama");
  config.layout = {.tensor = 2, .pipeline = 2, .schedule = "zero_bubble"};
  config.train.deterministic = true;
  const Outcome once = Train({.config = config, .steps = Float8Steps()});
  const Outcome again = Train({.config = config, .steps = Float8Steps()});
  EXPECT_EQ(once.losses, again.losses);
  EXPECT_EQ(once.parameters, again.parameters);
}

// Types of the weights and of the moments.
using KeptTypes = std::pair<std::string, std::string>;

class StateInHostMemory : public testing::TestWithParam<KeptTypes> {};
INSTANTIATE_TEST_SUITE_P(Types, StateInHostMemory,
                         testing::Values(KeptTypes{"fp32", "fp32"}, KeptTypes{"bf16", "fp32"},
                                         KeptTypes{"bf16", "bf16"}, KeptTypes{"fp16", "fp32"}),
                         [](const auto& instance) {
                           return fmt::format("{}_moments_{}", instance.param.first, instance.param.second);
                         });

// What passes through the device is updated by the same operations: the bits are those of state that stays there.
TEST_P(StateInHostMemory, TrainsToTheSameBits) {
  const auto layouts = {
      ParallelLayout{},
      ParallelLayout{.micro_batch = 12},  // gradients over activations
      ParallelLayout{.data = 2, .zero = 0},
      ParallelLayout{.tensor = 2, .data = 2, .zero = 1, .sequence_parallel = true},
      ParallelLayout{.pipeline = 2, .data = 2, .zero = 2},
      ParallelLayout{.pipeline = 2, .data = 3, .zero = 3, .schedule = "zero_bubble"},
      ParallelLayout{.pipeline = 2, .schedule = "interleaved", .chunks = 2, .recompute = Recompute::kFull},
      ParallelLayout{.zero = 1},
      ParallelLayout{.zero = 3},
  };
  for (const ParallelLayout& layout : layouts) {
    RunConfig config = SmallRun("gpt2");
    config.train.dtype = GetParam().first;
    config.optimizer.moments = GetParam().second;
    config.train.deterministic = true;  // a GPU needs to be asked
    config.layout = layout;
    SCOPED_TRACE(layout.ToString());
    const int steps = std::max(2, LawSteps() / 4);
    const Outcome kept = Train({.config = config, .steps = steps, .validate = true});
    for (const Offload offload : {Offload::kOptimizer, Offload::kFull}) {
      config.layout.offload = offload;
      SCOPED_TRACE(Name(offload));
      const Outcome passing = Train({.config = config, .steps = steps, .validate = true});
      EXPECT_THAT(passing.accounting, testing::IsEmpty());
      EXPECT_TRUE(passing.tied_copies_equal);
      EXPECT_EQ(kept.losses, passing.losses);
      EXPECT_EQ(kept.gradient_norms, passing.gradient_norms);
      EXPECT_EQ(kept.validation, passing.validation);
      EXPECT_EQ(kept.parameters, passing.parameters);
    }
  }
}

class ActivationsInHostMemory : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, ActivationsInHostMemory, testing::Values("gpt2", "llama"),
                         [](const auto& instance) { return std::string(instance.param); });

// What blocks keep comes back as it went: the bits are those of what stays on the device.
TEST_P(ActivationsInHostMemory, TrainToTheSameBits) {
  const auto layouts = {
      ParallelLayout{},
      ParallelLayout{.micro_batch = 12},
      ParallelLayout{.recompute = Recompute::kFull},
      ParallelLayout{.tensor = 2, .data = 2, .zero = 1, .sequence_parallel = true},
      ParallelLayout{.pipeline = 2, .data = 2, .zero = 3, .recompute = Recompute::kFull, .recompute_layers = 1},
      ParallelLayout{.pipeline = 2, .schedule = "gpipe"},
      ParallelLayout{.pipeline = 2, .schedule = "interleaved", .chunks = 2, .recompute = Recompute::kSelective},
      ParallelLayout{.pipeline = 2, .schedule = "zero_bubble", .offload = Offload::kFull},
      ParallelLayout{.pipeline = 2, .schedule = "zero_bubble", .recompute = Recompute::kFull},
      ParallelLayout{.pipeline = 2, .schedule = "zero_bubble_v", .chunks = 2, .recompute = Recompute::kLight},
      ParallelLayout{.context = 2, .pipeline = 2, .context_kind = ContextKind::kRing},
  };
  for (const ParallelLayout& layout : layouts) {
    RunConfig config = SmallRun(GetParam());
    config.model.dropout = 0.1;
    config.train.deterministic = true;  // a GPU needs to be asked
    config.layout = layout;
    SCOPED_TRACE(layout.ToString());
    const int steps = std::max(2, LawSteps() / 4);
    const Outcome kept = Train({.config = config, .steps = steps, .validate = true});
    config.layout.offload_activations = true;
    const Outcome passing = Train({.config = config, .steps = steps, .validate = true});
    EXPECT_THAT(passing.accounting, testing::IsEmpty());
    EXPECT_EQ(kept.losses, passing.losses);
    EXPECT_EQ(kept.gradient_norms, passing.gradient_norms);
    EXPECT_EQ(kept.validation, passing.validation);
    EXPECT_EQ(kept.parameters, passing.parameters);
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
