// Law 1 for models whose layers are of several kinds: windowed or not, with positions or without, scores divided by the
// layer's number.
#include "parity/parity.h"

namespace trireme::parity {
namespace {

// Four layers of four kinds, in an order that no period says.
RunConfig MixedRun(const std::string& family = "qwen3") {
  RunConfig config = SmallRun(family);
  config.model.window = 4;
  config.model.window_period = 0;
  config.model.layer_types = "full, sliding_nope, sliding, full_nope";
  config.model = Completed(config.model, true);
  return config;
}

RunConfig With(RunConfig config, const ParallelLayout& layout) {
  const int micro_batch = config.layout.micro_batch;
  config.layout = layout;
  config.layout.micro_batch = micro_batch;
  return config;
}

TEST(LayerTypes, AnyCutOfAPipelineTrainsAsOneRank) {
  for (const char* partition : {"1,3", "3,1", "0,4", "2,2"}) {
    SCOPED_TRACE(partition);
    ExpectLaw(With(MixedRun(), {.pipeline = 2, .partition = partition}));
  }
  ExpectLaw(With(MixedRun(), {.tensor = 2, .pipeline = 3, .partition = "1,2,1"}));
  ExpectLaw(With(MixedRun(), {.pipeline = 2, .schedule = "interleaved", .chunks = 2}));
  ExpectLaw(With(MixedRun(), {.pipeline = 2, .schedule = "zero_bubble"}));
}

TEST(LayerTypes, TensorRanksAndRecomputationTrainAsOneRank) {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kLight, Recompute::kSelective, Recompute::kFull}) {
    SCOPED_TRACE(Name(recompute));
    RunConfig config = With(MixedRun(), {.tensor = 2, .sequence_parallel = true, .recompute = recompute});
    ExpectLaw(config);
    config.layout.recompute_layers = recompute == Recompute::kNone ? 0 : 1;
    ExpectLaw(config);
  }
}

TEST(LayerTypes, EveryKindOfContextTrainsAsOneRank) {
  for (const ContextKind kind : {ContextKind::kAllGather, ContextKind::kUlysses, ContextKind::kRing}) {
    SCOPED_TRACE(Name(kind));
    ExpectLaw(With(MixedRun(), {.context = 2, .context_kind = kind}));
  }
}

TEST(LayerTypes, DataRanksTrainAsOneRank) {
  for (const int zero : {1, 3}) {
    SCOPED_TRACE(zero);
    ExpectLaw(With(MixedRun("llama"), {.data = 2, .zero = zero}));
  }
}

TEST(LayerTypes, APatternIsWhatThePeriodIs) {
  RunConfig period = SmallRun("gemma3");
  ASSERT_EQ(period.model.window_period, 3);
  RunConfig pattern = period;
  pattern.model.window_period = 0;
  pattern.model.layer_types = "2*sliding, full";
  pattern.model = Completed(pattern.model, true);
  const Outcome expected = Train({.config = period, .steps = 5});
  const Outcome actual = Train({.config = pattern, .steps = 5});
  EXPECT_EQ(actual.losses, expected.losses);
  EXPECT_EQ(actual.parameters, expected.parameters);
}

TEST(LayerTypes, KindsChangeWhatIsLearned) {
  RunConfig mixed = MixedRun("llama");
  const std::vector<double> losses = Train({.config = mixed, .steps = 2}).losses;
  for (const char* other : {"full", "full, sliding, sliding, full", "full, full_nope, full, full_nope"}) {
    mixed.model.layer_types = other;
    mixed.model = Completed(mixed.model, true);
    EXPECT_NE(Train({.config = mixed, .steps = 2}).losses, losses) << other;
  }
}

TEST(LayerTypes, ScoresDividedByTheLayerTrainAsOneRank) {
  RunConfig config = SmallRun("gpt2");
  config.model.scores_by_layer = true;
  config.model.attention_multiplier = 1;
  config.model.activation = ActivationChoice::kSilu;
  config.model = Completed(config.model, true);
  ExpectLaw(With(config, {.tensor = 2, .pipeline = 2, .partition = "1,3"}));
  ExpectLaw(With(config, {.data = 2, .zero = 3, .recompute = Recompute::kSelective}));
}

TEST(LayerTypes, BiasesOfGatedPartsTrainAsOneRank) {
  for (const ActivationChoice activation : {ActivationChoice::kRelu, ActivationChoice::kGeluTanh}) {
    SCOPED_TRACE(Name(activation));
    RunConfig config = SmallRun("llama");
    config.model.attention_bias = config.model.mlp_bias = BiasChoice::kYes;
    config.model.activation = activation;
    config.model = Completed(config.model, true);
    ExpectLaw(With(config, {.tensor = 3, .sequence_parallel = true, .recompute = Recompute::kSelective}));
    ExpectLaw(With(config, {.pipeline = 2, .data = 2, .zero = 3, .schedule = "zero_bubble"}));
  }
}

TEST(LayerTypes, FamiliesWithoutBiasesTrainAsOneRank) {
  for (const std::string family : {"gpt_neox", "opt"}) {
    SCOPED_TRACE(family);
    RunConfig config = SmallRun(family);
    config.model.attention_bias = BiasChoice::kNo;
    config.model = Completed(config.model, true);
    ExpectLaw(With(config, {.tensor = 2, .pipeline = 2, .recompute = Recompute::kLight}));
  }
}

}  // namespace
}  // namespace trireme::parity
