// Training against PyTorch's modules, autograd, clipping and AdamW: the one comparison whose other side is no code of
// ours. make_fixture.py holds that side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "nn/model_bench.h"
#include "oracle/fixture.h"
#include "train/trainer.h"

namespace trireme::oracle {
namespace {

// PyTorch's side is float64 and ours fp32, whose rounding gives losses some 1e-7 and gradients some 1e-6 of their norm;
// an AdamW update with epsilon 1e-4 passes on a gradient's error at most ten-thousandfold less its size.
constexpr double kLossTolerance = 2e-6;
constexpr double kGradientTolerance = 2e-5;
constexpr double kMovedTolerance = 2e-4;
constexpr double kHalfLooseness = 200;

void ExpectSummary(const std::string& name, const Summary& expected, const std::vector<float>& values,
                   double tolerance) {
  const Summary found = SummaryOf(name, values);
  const double bound = tolerance * expected.norm + 1e-9;
  EXPECT_NEAR(found.norm, expected.norm, bound) << name;
  EXPECT_NEAR(found.projection, expected.projection, bound) << name << ", projected";
  ASSERT_EQ(found.samples.size(), expected.samples.size()) << name;
  for (std::size_t i = 0; i < found.samples.size(); ++i) {
    EXPECT_NEAR(found.samples[i], expected.samples[i], bound) << name << ", sample " << i;
  }
}

std::vector<std::string> NamesOf(const std::map<std::string, Summary>& summaries) {
  std::vector<std::string> names;
  for (const auto& [name, summary] : summaries) {
    names.push_back(name);
  }
  return names;
}

class AgainstPyTorch : public testing::TestWithParam<std::size_t> {
 protected:
  const Case& one() const { return Cases()[GetParam()]; }
};
INSTANTIATE_TEST_SUITE_P(Oracle, AgainstPyTorch, testing::Range<std::size_t>(0, Cases().size()),
                         [](const auto& number) { return Cases()[number.param].name; });

TEST_P(AgainstPyTorch, GradientsOfTheFirstStep) {
  RunConfig config = one().config;
  config.layout.micro_batch = static_cast<int>(config.batch.global);
  Validate(config, 1);
  const FixtureSource source(one());
  HostBatch batch;
  for (std::int64_t i = 0; i < config.batch.global; ++i) {
    const Sample sample = source.Get(i);
    batch.tokens.insert(batch.tokens.end(), sample.tokens.begin(), sample.tokens.end() - 1);
    batch.targets.insert(batch.targets.end(), sample.tokens.begin() + 1, sample.tokens.end());
    batch.weights.insert(batch.weights.end(), sample.weights.begin(), sample.weights.end());
    if (one().documents) {
      batch.document_starts.insert(batch.document_starts.end(), sample.document_starts.begin(),
                                   sample.document_starts.end());
    }
  }
  OnOneRank([&](RankContext& context) {
    ModelBench bench(config, context);
    const std::vector<Parameter>& rows = bench.table().rows();
    std::vector<std::string> names;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      std::vector<float>& weight = bench.weight(static_cast<int>(row));
      for (std::int64_t i = 0; i < rows[row].shape.count(); ++i) {
        weight[static_cast<std::size_t>(i)] = FirstValue(rows[row].name, i);
      }
      names.push_back(rows[row].name);
    }
    EXPECT_NEAR(bench.Gradients(batch), one().steps[0].loss, kLossTolerance * one().steps[0].loss);
    EXPECT_THAT(names, testing::UnorderedElementsAreArray(NamesOf(one().gradients)));
    for (std::size_t row = 0; row < rows.size(); ++row) {
      std::vector<float> gradient = bench.gradient(static_cast<int>(row));
      gradient.resize(static_cast<std::size_t>(rows[row].shape.count()));  // without the vocabulary's padding
      ExpectSummary(rows[row].name, one().gradients.at(rows[row].name), gradient, kGradientTolerance);
    }
  });
}

// What a trainer holds after the steps of a case, whole, less what it started from.
class Trained {
 public:
  // `looseness`: of the tolerances, for types that round more than fp32.
  explicit Trained(const Case& one, double looseness = 1) : case_(one), looseness_(looseness) {}

  void Run(const RunConfig& config) {
    Validate(config, config.layout.ranks());
    const FixtureSource source(case_);
    RunThreadRanks(config.layout.ranks(), {.kind = "cpu"}, [&](RankContext& context) {
      Trainer trainer(config, context, {.train = &source});
      SetWeights(trainer);
      for (std::size_t i = 0; i < case_.steps.size(); ++i) {
        const StepResult result = trainer.Step();
        if (context.world.rank() == 0) {
          Compare(result, case_.steps[i]);
        }
      }
      Collect(trainer);
    });
    for (const auto& [name, summary] : case_.moved) {
      ASSERT_TRUE(moved_.contains(name)) << name;
      ExpectSummary(name, summary, moved_[name], looseness_ * kMovedTolerance);
    }
  }

 private:
  static void SetWeights(Trainer& trainer) {
    for (const OwnedState& state : trainer.JoinState()) {
      if (state.kind != StateKind::kMaster) {
        continue;
      }
      const std::string& name = trainer.table().rows()[static_cast<std::size_t>(state.row)].name;
      std::vector<float> values(static_cast<std::size_t>(state.values.count()));
      for (const SliceRun& run : state.runs) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          values[static_cast<std::size_t>(run.local + i)] = FirstValue(name, run.global + i);
        }
      }
      CopyValues(trainer.device(), values, state.values);
    }
    trainer.Restore({});
  }
  void Compare(const StepResult& result, const StepNumbers& expected) const {
    EXPECT_NEAR(result.loss, expected.loss, 10 * looseness_ * kLossTolerance * expected.loss) << "step " << result.step;
    EXPECT_NEAR(result.gradient_norm, expected.gradient_norm, looseness_ * kMovedTolerance * expected.gradient_norm)
        << "step " << result.step;
    EXPECT_NEAR(result.learning_rate, expected.learning_rate, 1e-9) << "step " << result.step;
  }
  void Collect(Trainer& trainer) {
    const std::vector<Parameter>& rows = trainer.table().rows();
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (!trainer.parts().HoldsRow(static_cast<int>(row))) {
        continue;
      }
      const std::vector<float> slice = trainer.parts().WeightOnHost(static_cast<int>(row));
      const std::scoped_lock lock(mutex_);
      std::vector<float>& whole = moved_[rows[row].name];
      whole.resize(static_cast<std::size_t>(rows[row].shape.count()));
      for (const SliceRun& run : SliceRuns(rows[row], trainer.config().layout.tensor, trainer.coordinate().tensor)) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          whole[static_cast<std::size_t>(run.global + i)] =
              slice[static_cast<std::size_t>(run.local + i)] - FirstValue(rows[row].name, run.global + i);
        }
      }
    }
  }

  const Case& case_;
  double looseness_;
  std::mutex mutex_;
  std::map<std::string, std::vector<float>> moved_;
};

TEST_P(AgainstPyTorch, ThreeStepsOfOneRank) { Trained(one()).Run(one().config); }

TEST_P(AgainstPyTorch, ThreeStepsOfAWholeBatchAtOnce) {
  RunConfig config = one().config;
  config.layout.micro_batch = static_cast<int>(config.batch.global);
  Trained(one()).Run(config);
}

// Tensor, sequence, pipeline and data parallelism at once, as far as the model can be cut.
TEST_P(AgainstPyTorch, ThreeStepsOfManyRanks) {
  RunConfig config = one().config;
  const int tensor = config.model.kv_heads % 2 == 0 ? 2 : 1;
  config.layout = {.tensor = tensor,
                   .pipeline = static_cast<int>(config.model.layers),
                   .data = 2,
                   .zero = 2,
                   .sequence_parallel = tensor > 1,
                   .micro_batch = tensor > 1 && config.model.sequence % 2 != 0 ? 2 : 1};
  if (config.batch.global % (config.layout.data * config.layout.micro_batch) != 0) {
    config.layout.data = 1;
  }
  Trained(one()).Run(config);
}

// fp16 has 13 bits less: the masters move as PyTorch's do in double precision, within what its rounding of weights,
// activations and their gradients allows, whatever the loss scale.
TEST_P(AgainstPyTorch, ThreeStepsInFloat16) {
  for (const double scale : {1024.0, 65536.0}) {
    SCOPED_TRACE(scale);
    RunConfig config = one().config;
    config.train.dtype = "fp16";
    config.train.initial_loss_scale = scale;
    Trained(one(), kHalfLooseness).Run(config);
  }
}

TEST(Fixture, CoversEveryFamilyAndOption) {
  EXPECT_GE(Cases().size(), 20U);
  std::map<std::string, int> families;
  for (const Case& one : Cases()) {
    ++families[one.config.model.family];
    EXPECT_EQ(one.steps.size(), 3U) << one.name;
  }
  EXPECT_THAT(families,
              testing::ElementsAre(testing::Pair("bloom", testing::Ge(4)), testing::Pair("gpt2", testing::Ge(4)),
                                   testing::Pair("llama", testing::Ge(4))));
}

}  // namespace
}  // namespace trireme::oracle
