// Laws of the context axis: ranks that divide the tokens of every sequence train as one rank does.
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/random.h"
#include "data/samples/packed_source.h"
#include "family_features.h"
#include "parity/parity.h"
#include "parity/short_documents.h"
#include "scratch_directory.h"

namespace trireme::parity {
namespace {

constexpr ContextKind kKinds[] = {ContextKind::kAllGather, ContextKind::kUlysses, ContextKind::kRing};

// Half the steps of other laws: every rank of the axis is a thread more.
RunConfig ShortRun(const std::string& family) {
  RunConfig config = SmallRun(family);
  config.train.steps = std::max(2, LawSteps() / 4);
  config.batch.global = 4;
  return config;
}

void ExpectLawOf(const std::string& family, const ParallelLayout& layout) {
  RunConfig config = ShortRun(family);
  config.layout = layout;
  SCOPED_TRACE(family + ", " + layout.ToString() + ", " + Name(layout.context_kind));
  ExpectLaw(config);
}

class ContextOf : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Families, ContextOf, testing::ValuesIn(FamilyNames()),
                         [](const auto& family) { return family.param; });

TEST_P(ContextOf, RanksTrainAsOne) {
  ExpectLawOf(GetParam(), {.context = 3, .recompute = Recompute::kLight});
  ExpectLawOf(GetParam(), {.tensor = 2, .context = 2, .sequence_parallel = true});
}

TEST_P(ContextOf, UlyssesRanksTrainAsOne) {
  ExpectLawOf(GetParam(), {.context = 3, .recompute = Recompute::kLight, .context_kind = ContextKind::kUlysses});
  ExpectLawOf(GetParam(),
              {.tensor = 2, .context = 2, .sequence_parallel = true, .context_kind = ContextKind::kUlysses});
}

TEST_P(ContextOf, RingRanksTrainAsOne) {
  ExpectLawOf(GetParam(), {.context = 3, .recompute = Recompute::kLight, .context_kind = ContextKind::kRing});
  ExpectLawOf(GetParam(), {.tensor = 2, .context = 2, .sequence_parallel = true, .context_kind = ContextKind::kRing});
}

TEST(Context, RecomputationChangesNothing) {
  for (const ContextKind kind : kKinds) {
    for (const Recompute recompute : {Recompute::kLight, Recompute::kSelective, Recompute::kFull}) {
      ExpectLawOf("qwen3", {.context = 2, .recompute = recompute, .context_kind = kind});
      ExpectLawOf("gpt2", {.context = 2, .recompute = recompute, .recompute_layers = 1, .context_kind = kind});
    }
  }
}

// Six ranks of 12 tokens: Ulysses in groups of two or three, whose keys pass around three or two groups.
TEST(Context, UlyssesWithinAndRingAcrossTrainAsOne) {
  for (const char* family : {"gpt2", "bloom", "mistral", "qwen3", "gemma3"}) {
    for (const int ulysses : {0, 2}) {
      ExpectLawOf(family, {.context = 6,
                           .recompute = Recompute::kLight,
                           .context_kind = ContextKind::kUlyssesRing,
                           .ulysses = ulysses});
    }
  }
  for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
    ExpectLawOf("llama", {.context = 6, .recompute = recompute, .context_kind = ContextKind::kUlyssesRing});
  }
}

TEST(Context, UlyssesAndRingComposeWithTheOtherAxes) {
  const ScratchDirectory folder;
  RunConfig config = ShortRun("llama");
  config.model.sequence = 16;
  config.data.source = ShortDocuments(folder);
  config.data.split = "50,50,0";
  config.data.document_masks = true;
  config.data.padding_masks = true;
  config.model.dropout = 0.2;
  config.model.attention_dropout = TestsUseGpu() ? 0 : 0.1;
  for (const ParallelLayout& axes : {ParallelLayout{.tensor = 2, .context = 4, .sequence_parallel = true},
                                     ParallelLayout{.context = 4, .pipeline = 2, .schedule = "zero_bubble"},
                                     ParallelLayout{.context = 4, .data = 2, .zero = 3, .micro_batch = 2}}) {
    config.layout = axes;
    config.layout.context_kind = ContextKind::kUlyssesRing;
    SCOPED_TRACE(axes.ToString());
    ExpectLaw(config);
  }
}

TEST(Context, EveryScheduleTrainsAsOne) {
  for (const ContextKind kind : kKinds) {
    for (const ScheduleKind& schedule : ScheduleKinds()) {
      ExpectLawOf("llama", {.context = 2,
                            .pipeline = 2,
                            .schedule = schedule.name,
                            .chunks = schedule.least_chunks,
                            .context_kind = kind});
    }
  }
}

TEST(Context, ReplicasShardTheStateAmongDataAndContextRanks) {
  for (int zero = 0; zero <= 3; ++zero) {
    ExpectLawOf("gpt2", {.context = 2, .data = 2, .zero = zero});
    ExpectLawOf("llama", {.context = 3, .zero = zero, .context_kind = ContextKind::kUlysses});
  }
  ExpectLawOf("llama", {.context = 2, .data = 2, .zero = 3, .shard_ranks = 2});
  ExpectLawOf("gpt2", {.context = 2, .data = 2, .zero = 1, .offload = Offload::kOptimizer});
  ExpectLawOf("gpt2", {.context = 2, .zero = 3, .offload = Offload::kFull});
}

TEST(Context, OtherOptimizersTrainAsOne) {
  for (const char* name : {"muon", "adafactor"}) {
    for (const int zero : {0, 1}) {
      RunConfig config = ShortRun("llama");
      config.optimizer.kind = FromWord<OptimizerKind>("optimizer", name);
      config.layout = {.tensor = 2, .context = 2, .zero = zero};
      SCOPED_TRACE(fmt::format("{}, {}", name, config.layout.ToString()));
      ExpectLaw(config, 2e-5);
    }
  }
}

TEST(Context, DropoutIsDrawnByGlobalPosition) {
  for (const ContextKind kind : kKinds) {
    for (const char* family : {"gpt2", "bloom"}) {
      RunConfig config = ShortRun(family);
      config.model.dropout = 0.3;
      config.model.attention_dropout = TestsUseGpu() ? 0 : 0.2;
      config.layout = {.tensor = 2,
                       .context = 2,
                       .data = 2,
                       .zero = 2,
                       .sequence_parallel = true,
                       .recompute = Recompute::kFull,
                       .micro_batch = 2,
                       .context_kind = kind};
      ExpectLaw(config);
    }
  }
}

// The loss is by tokens: ranks have different numbers of targets that count.
TEST(Context, DocumentAndPaddingMasksTrainAsOne) {
  const ScratchDirectory folder;
  for (const ContextKind kind : kKinds) {
    for (const char* family : {"llama", "bloom", "mistral"}) {
      RunConfig config = ShortRun(family);
      config.data.source = ShortDocuments(folder);
      config.data.split = "50,50,0";
      config.data.document_masks = true;
      config.data.padding_masks = true;
      config.train.z_loss = 1e-3;
      config.train.head_chunk = 5;
      config.layout = {.context = 3, .data = 2, .zero = 1, .micro_batch = 2, .context_kind = kind};
      SCOPED_TRACE(fmt::format("{}, {}", family, Name(kind)));
      ExpectLaw(config);
    }
  }
}

// Whole documents in a sample, each with positions of its own; ranks have several chunks of it.
TEST(Context, PackedDocumentsWithPositionsOfTheirOwnTrainAsOne) {
  const ScratchDirectory folder;
  for (const char* family : {"gpt2", "llama"}) {
    for (const ParallelLayout& layout :
         {ParallelLayout{.context = 2, .data = 2, .micro_batch = 2},
          ParallelLayout{.context = 3, .context_kind = ContextKind::kRing, .context_stripes = 4},
          ParallelLayout{.tensor = 2, .context = 2, .sequence_parallel = true, .context_kind = ContextKind::kUlysses},
          ParallelLayout{.context = 4, .context_kind = ContextKind::kUlyssesRing, .context_stripes = 3}}) {
      RunConfig config = ShortRun(family);
      config.model.sequence = 24;
      config.model = Completed(config.model);
      config.data.source = ShortDocuments(folder);
      config.data.split = "50,50,0";
      config.data.packing = Packing::kBestFit;
      config.data.document_masks = true;
      config.data.document_positions = true;
      config.layout = layout;
      SCOPED_TRACE(fmt::format("{}, {}", family, layout.ToString()));
      ExpectLaw(config);
    }
  }
}

// Samples go to data ranks and micro batches by their work: the same samples in a step, so the same sums. Dropout is
// drawn by sample.
TEST(Documents, SamplesDealtByWorkTrainAsOne) {
  const ScratchDirectory folder;
  for (const double dropout : {0.0, 0.2}) {
    for (const ParallelLayout& layout :
         {ParallelLayout{.data = 2, .micro_batch = 2}, ParallelLayout{.data = 4, .zero = 3},
          ParallelLayout{.context = 2, .pipeline = 2, .data = 2, .schedule = "zero_bubble", .micro_batch = 2}}) {
      RunConfig config = ShortRun("llama");
      config.batch.global = 8;
      config.model.sequence = 24;
      config.model.dropout = dropout;
      config.data.source = ShortDocuments(folder);
      config.data.split = "50,50,0";
      config.data.packing = dropout > 0 ? Packing::kBestFit : Packing::kWindows;
      config.data.document_masks = true;
      config.layout = layout;
      SCOPED_TRACE(fmt::format("{}, dropout {}", layout.ToString(), dropout));
      ExpectLaw(config);
    }
  }
  // Dealt otherwise than by number, or the laws above would show nothing.
  RunConfig config = ShortRun("llama");
  config.data.source = ShortDocuments(folder);
  config.data.split = "50,50,0";
  config.data.document_masks = true;
  config.train.deterministic = true;
  config.layout = {.data = 2};
  const Outcome dealt = Train({.config = config, .steps = 2});
  config.data.balance = BatchBalance::kNone;
  const Outcome numbered = Train({.config = config, .steps = 2});
  EXPECT_NE(dealt.parameters, numbered.parameters);
  EXPECT_NEAR(dealt.losses[1] / numbered.losses[1], 1, 1e-5);
}

// Rotary positions are relative: where they begin changes nothing within a document. Learned ones are not.
TEST(Documents, PositionsThatBeginAnewMatterToLearnedOnesAlone) {
  const ScratchDirectory folder;
  for (const char* family : {"llama", "gpt2"}) {
    RunConfig config = ShortRun(family);
    config.data.source = ShortDocuments(folder);
    config.data.split = "50,50,0";
    config.data.packing = Packing::kBestFit;
    config.data.document_masks = true;
    const Outcome through = Train({.config = config, .steps = 2});
    config.data.document_positions = true;
    const Outcome anew = Train({.config = config, .steps = 2});
    if (config.model.family == "llama") {
      EXPECT_NEAR(anew.losses[1] / through.losses[1], 1, 1e-5);
    } else {
      EXPECT_GT(std::abs(anew.losses[1] / through.losses[1] - 1), 1e-5);
    }
  }
}

// The most pairs of query and key that a context rank has of a sample, over the mean of all ranks.
double Unevenness(const std::vector<DocumentPiece>& documents, std::int64_t sequence, int degree, int stripes) {
  std::vector<std::int64_t> seen(static_cast<std::size_t>(sequence), 1);  // keys of each query; of padding itself
  std::size_t at = 0;
  for (const DocumentPiece& document : documents) {
    for (std::int64_t i = 0; i < document.tokens && at < seen.size(); ++i) {
      seen[at++] = i + 1;
    }
  }
  double most = 0;
  double sum = 0;
  for (int rank = 0; rank < degree; ++rank) {
    const ContextShare share{.sequence = sequence, .degree = degree, .rank = rank, .stripes = stripes};
    double own = 0;
    for (std::int64_t i = 0; i < share.tokens(); ++i) {
      own += static_cast<double>(seen[static_cast<std::size_t>(share.Position(i))]);
    }
    most = std::max(most, own);
    sum += own;
  }
  return most / (sum / degree) - 1;
}

// Lengths log-uniform between 16 and a whole sample, as those of pages are: with 16 stripes no rank has 10 % more work
// than the mean; two chunks alone are uneven. Without documents every number of stripes is even.
TEST(Documents, WorkIsEvenAmongContextRanks) {
  constexpr std::int64_t kTokens = 8192;
  std::vector<DocumentPiece> pieces;
  std::int64_t first = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const double draw = static_cast<double>(RandomBelow(7, i, 1 << 20)) / (1 << 20);
    pieces.push_back({first, static_cast<std::int64_t>(16 * std::pow(512.0, draw))});
    first += pieces.back().tokens;
  }
  const std::vector<std::vector<DocumentPiece>> samples = PackBestFit(pieces, kTokens + 1);
  for (const int degree : {2, 4, 8}) {
    const auto mean = [&](int stripes) {
      double sum = 0;
      for (const std::vector<DocumentPiece>& sample : samples) {
        sum += Unevenness(sample, kTokens, degree, stripes);
      }
      return sum / static_cast<double>(samples.size());
    };
    EXPECT_LE(mean(16), 0.10) << degree;
    EXPECT_GT(mean(1), 0.10) << degree;
    EXPECT_LE(Unevenness({{0, kTokens}}, kTokens, degree, 1), 0.02) << degree;
    EXPECT_LE(Unevenness({{0, kTokens}}, kTokens, degree, 16), 0.02) << degree;
  }
}

// Every stripe is as much causal work for each rank as the next, with every kind of exchange.
TEST(Context, StripesTrainAsOne) {
  for (const ContextKind kind : kKinds) {
    ExpectLawOf("llama", {.context = 2, .context_kind = kind, .context_stripes = 3});
    ExpectLawOf("mistral", {.context = 3, .recompute = Recompute::kFull, .context_kind = kind, .context_stripes = 2});
  }
}

TEST(Context, LowerPrecisionStaysWithinItsRounding) {
  for (const ContextKind kind : kKinds) {
    for (const char* dtype : {"bf16", "fp16", "fp8"}) {
      RunConfig config = ShortRun("llama");
      config.model.hidden = 64;
      config.model.heads = config.model.kv_heads = 4;
      config.model.ffn = 128;
      config.model.sequence = 32;
      config.train.dtype = dtype;
      config.layout = {.context = 2, .data = 2, .zero = 3, .context_kind = kind};
      SCOPED_TRACE(fmt::format("{}, {}", dtype, Name(kind)));
      const Outcome one = Train({.config = OneRank(config), .steps = 3});
      const Outcome many = Train({.config = config, .steps = 3});
      EXPECT_THAT(many.accounting, testing::IsEmpty());
      for (std::size_t step = 0; step < one.losses.size(); ++step) {
        EXPECT_NEAR(many.losses[step] / one.losses[step], 1.0, 2e-2) << step;
      }
    }
  }
}

TEST(Context, TheSameLayoutTwiceGivesTheSameBits) {
  RunConfig config = ShortRun("llama");
  config.train.deterministic = true;
  config.layout = {.tensor = 2, .context = 2, .pipeline = 2, .zero = 3, .schedule = "zero_bubble"};
  const Outcome once = Train({.config = config, .steps = 3});
  const Outcome again = Train({.config = config, .steps = 3});
  EXPECT_EQ(once.losses, again.losses);
  EXPECT_EQ(once.parameters, again.parameters);
}

// Small enough for long sequences on a laptop's cores.
RunConfig LongRun(std::int64_t sequence) {
  RunConfig config = SmallRun("llama");
  config.model.layers = 1;
  config.model.hidden = 16;
  config.model.heads = 2;
  config.model.kv_heads = 1;
  config.model.ffn = 16;
  config.model.vocabulary = 32;
  config.model.sequence = sequence;
  config.batch.global = 1;
  config.train.steps = 1;
  config.validation.samples = 2;
  return config;
}

// TRIREME_LAW_TOKENS, or what is cheap enough for every run.
std::int64_t LawTokens(std::int64_t usual) {
  const char* const wanted = std::getenv("TRIREME_LAW_TOKENS");
  return wanted == nullptr ? usual : std::atoll(wanted);
}

void ExpectLongLaw(RunConfig config, const ParallelLayout& layout) {
  config.layout = layout;
  SCOPED_TRACE(fmt::format("{} tokens of {}, {}", config.model.sequence, config.model.family, layout.ToString()));
  ExpectLaw(config, 2e-5);
}

TEST(Context, LongSequencesOnManyRanksTrainAsOne) {
  for (const ContextKind kind : {ContextKind::kAllGather, ContextKind::kRing}) {
    ExpectLongLaw(LongRun(512), {.context = 64, .context_kind = kind});
    ExpectLongLaw(LongRun(LawTokens(4096)), {.context = 8, .context_kind = kind});
  }
}

// 32,768 tokens; windows and documents keep attention over them cheap.
TEST(Context, SequencesOf32kTokensTrainAsOne) {
  RunConfig windowed = LongRun(LawTokens(32768));
  windowed.model.family = "mistral";
  windowed.model.window = 200;
  windowed.model = Completed(windowed.model);
  ExpectLongLaw(windowed, {.context = 8, .context_kind = ContextKind::kRing});
  windowed.model.heads = windowed.model.kv_heads = 4;
  ExpectLongLaw(windowed, {.context = 8, .context_kind = ContextKind::kUlyssesRing, .ulysses = 4});
  const ScratchDirectory folder;
  RunConfig packed = LongRun(LawTokens(32768));
  packed.model.vocabulary = 90;
  packed.data.source = ShortDocuments(folder, 14000);
  packed.data.split = "50,50,0";
  packed.data.packing = Packing::kBestFit;
  packed.data.document_masks = true;
  packed.data.document_positions = true;
  ExpectLongLaw(packed, {.context = 4, .context_stripes = 16});
}

// Zig-zag: an early and a late chunk together are the same work on every rank.
TEST(Context, CausalAttentionIsTheSameWorkOnEveryRank) {
  for (const ContextKind kind : kKinds) {
    RunConfig config = SmallRun("llama");
    const std::int64_t whole = CostOfStep(StageOfRun(config, 0, 12).description(), 0).flops.attention;
    config.layout.context = 6;
    config.layout.context_kind = kind;
    for (int rank = 0; rank < 6; ++rank) {
      EXPECT_EQ(6 * CostOfStep(StageOfRun(config, 0, 12, rank).description(), 0).flops.attention, whole) << rank;
    }
  }
}

// What a window hides is no work: the ranks' parts add up to the whole.
TEST(Context, WindowedAttentionAddsUpToThatOfOneRank) {
  RunConfig config = SmallRun("mistral");
  const std::int64_t whole = CostOfStep(StageOfRun(config, 0, 12).description(), 0).flops.attention;
  config.layout.context = 3;
  std::int64_t sum = 0;
  for (int rank = 0; rank < 3; ++rank) {
    sum += CostOfStep(StageOfRun(config, 0, 12, rank).description(), 0).flops.attention;
  }
  EXPECT_EQ(sum, whole);
}

// The arena is the plan (law 5), and the plan falls with the degree.
TEST(Context, KeptTensorsFallWithTheDegree) {
  for (const ContextKind kind : kKinds) {
    RunConfig config = SmallRun("llama");
    config.model.sequence = 4096;
    const MemoryUse one = MemoryOfStage(StageOfRun(config, 0, 12).description());
    std::int64_t scratch = INT64_MAX;  // keys of all ranks lie there too
    for (const int degree : {2, 4}) {
      config.layout.context = degree;
      config.layout.context_kind = kind;
      const MemoryUse part = MemoryOfStage(StageOfRun(config, 0, 12).description());
      SCOPED_TRACE(fmt::format("{} ranks, {}", degree, Name(kind)));
      EXPECT_LE(part[MemoryKind::kActivations],
                one[MemoryKind::kActivations] / degree * (kind == ContextKind::kUlysses ? 1.1 : 1.001));
      EXPECT_LT(part[MemoryKind::kScratch], scratch);
      scratch = part[MemoryKind::kScratch];
    }
  }
}

}  // namespace
}  // namespace trireme::parity
