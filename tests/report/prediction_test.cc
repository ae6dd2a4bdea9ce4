#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "report/metrics.h"
#include "report/prediction_report.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

RunConfig PredictedRun() {
  RunConfig config;
  config.model = Completed(
      ModelConfig{.family = "gpt2", .layers = 4, .hidden = 128, .heads = 4, .vocabulary = 512, .sequence = 64});
  config.layout.pipeline = 2;
  config.batch.global = 8;
  config.train.dtype = "fp32";
  return config;
}

PredictionContext TestContext() {
  const std::string source = TRIREME_SOURCE_DIR;
  return {.cluster = LoadCluster("laptop-cpu", source + "/clusters"),
          .stack = LoadStack("trireme", source + "/stacks"),
          .knowledge = "the cluster file 'laptop-cpu'"};
}

StepFacts StepOf(std::int64_t number, double seconds) {
  StepFacts facts;
  facts.result.step = number;
  facts.result.consumed_samples = 8 * number;
  facts.result.global_batch = 8;
  facts.result.seconds = seconds;
  return facts;
}

class Prediction : public testing::Test {
 protected:
  Prediction() : folder_((std::filesystem::temp_directory_path() / "trireme-prediction-XXXXXX").string()) {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~Prediction() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(Prediction, SaysWhatItExpectsAndFromWhat) {
  PredictionReport report(PredictedRun(), TestContext(), "");
  const double seconds = report.Seconds(8);
  EXPECT_GT(seconds, 0);
  const std::string text = report.Expectation({{8, 100}}, 5'000'000);
  EXPECT_THAT(text, HasSubstr("per step ("));
  EXPECT_THAT(text, HasSubstr("tokens/s, 5.0 MB on the fullest rank, 100 steps in "));
  EXPECT_THAT(text, HasSubstr("; from the cluster file 'laptop-cpu'"));
}

TEST_F(Prediction, FollowsTheProductsThatWereChosen) {
  const std::string source = TRIREME_SOURCE_DIR;
  const PredictionContext gpu{.cluster = LoadCluster("dgx-h100", source + "/clusters"),
                              .stack = LoadStack("trireme", source + "/stacks"),
                              .knowledge = "the cluster file 'dgx-h100'"};
  RunConfig config = PredictedRun();
  config.model = Completed(
      ModelConfig{.family = "gpt2", .layers = 4, .hidden = 4096, .heads = 32, .vocabulary = 512, .sequence = 2048});
  const auto predicted = [&](const std::string& dtype, const std::string& products) {
    config.train.dtype = dtype;
    config.train.fp8_products = products;
    return RunPrediction(config, gpu);
  };
  const auto seconds = [&](const std::string& dtype, const std::string& products) {
    return predicted(dtype, products).Seconds(8);
  };
  EXPECT_DOUBLE_EQ(seconds("fp8", "none"), seconds("bf16", "auto"));
  EXPECT_DOUBLE_EQ(seconds("fp8", "all"), seconds("fp8", "auto"));
  EXPECT_LT(seconds("fp8", "all"), seconds("fp8", "ffn_in,ffn_out"));
  EXPECT_LT(seconds("fp8", "ffn_in,ffn_out"), seconds("fp8", "ffn_in"));
  EXPECT_LT(seconds("fp8", "ffn_in"), seconds("fp8", "none"));
  // Steps of one choice say nothing of another's; a run without fp8 has none.
  EXPECT_NE(predicted("fp8", "all").fingerprint(), predicted("fp8", "ffn_in").fingerprint());
  EXPECT_EQ(predicted("bf16", "auto").fingerprint(), predicted("bf16", "all").fingerprint());
}

TEST_F(Prediction, TheEndShowsPredictedBesideMeasuredByCause) {
  PredictionReport report(PredictedRun(), TestContext(), "");
  EXPECT_EQ(report.Summary(), "") << "nothing was measured";
  const double seconds = 1.1 * report.Seconds(8);
  for (std::int64_t step = 1; step <= 5; ++step) {
    StepFacts facts = StepOf(step, seconds);
    facts.phases.phases = {{"forward", seconds / 2}, {"backward", seconds / 2}};
    EXPECT_EQ(report.StepDone(facts, true), "");
  }
  EXPECT_THAT(report.Summary(), HasSubstr("(median of 3): 1.1× slower than predicted"));
  EXPECT_THAT(report.Summary(), HasSubstr("by cause, predicted/measured on rank 0: forward "));
  EXPECT_THAT(report.Summary(), HasSubstr("pipeline "));
}

TEST_F(Prediction, ARunThatIsMuchSlowerSaysOnceWhichPart) {
  PredictionReport report(PredictedRun(), TestContext(), "");
  const double seconds = 3 * report.Seconds(8);
  std::vector<std::string> said;
  for (std::int64_t step = 1; step <= 20; ++step) {
    StepFacts facts = StepOf(step, seconds);
    facts.phases.groups = {{"data", 0.9 * seconds}};
    facts.phases.phases = {{"forward", 0.1 * seconds}};
    if (const std::string text = report.StepDone(facts, true); !text.empty()) {
      said.push_back(text);
    }
  }
  ASSERT_EQ(said.size(), 1U);
  EXPECT_THAT(said[0], testing::StartsWith("3.0× slower than predicted: "));
  EXPECT_THAT(said[0], HasSubstr("most of it in replicas: "));
}

// What the run says of steps that take `times` as long as predicted, a little more each step, and after which one.
std::pair<std::string, std::int64_t> SaidOf(PredictionReport& report, double times) {
  for (std::int64_t step = 1; step <= 20; ++step) {
    // Steps that prepare are slower and do not count.
    const double seconds = step <= 2 ? 100 : times * report.Seconds(8) * (1 + 0.01 * static_cast<double>(step));
    if (const std::string text = report.StepDone(StepOf(step, seconds), false); !text.empty()) {
      return {text, step};
    }
  }
  return {"", 0};
}

nlohmann::json PredictionFileIn(const std::string& folder) {
  return nlohmann::json::parse(std::ifstream(folder + "/prediction.json"));
}

TEST_F(Prediction, WhatTheFirstStepsContradictIsMeasuredAgain) {
  for (const double times : {2.5, 0.3}) {
    PredictionReport report(PredictedRun(), TestContext(), folder_);
    report.ReadEarlierSteps(0);
    const double first = report.Seconds(8);
    const auto [text, step] = SaidOf(report, times);
    EXPECT_EQ(step, 6) << "two steps prepare and four are measured";
    EXPECT_THAT(text, HasSubstr(times > 1 ? "2.6× slower than predicted" : "3.2× faster than predicted"));
    EXPECT_THAT(text, HasSubstr("; measured again by 4 steps: "));
    EXPECT_DOUBLE_EQ(report.Seconds(8), first) << "a run is compared with its first prediction";
    const nlohmann::json file = PredictionFileIn(folder_);
    EXPECT_DOUBLE_EQ(file["seconds"], first);
    EXPECT_EQ(file["again"]["step"], 6);
    EXPECT_DOUBLE_EQ(file["again"]["low"], times * first * 1.03);
    EXPECT_DOUBLE_EQ(file["again"]["high"], times * first * 1.06);
    EXPECT_DOUBLE_EQ(file["again"]["seconds"], times * first * 1.05);
  }
}

TEST_F(Prediction, WhatTheFirstStepsDoNotContradictStays) {
  for (const double times : {1.7, 0.55}) {
    PredictionReport report(PredictedRun(), TestContext(), folder_);
    report.ReadEarlierSteps(0);
    EXPECT_THAT(SaidOf(report, times).first, Not(HasSubstr("measured again")));
    EXPECT_FALSE(PredictionFileIn(folder_).contains("again"));
  }
}

TEST_F(Prediction, WithoutPhasesASlowRunNamesNoPart) {
  PredictionReport report(PredictedRun(), TestContext(), "");
  std::string said;
  for (std::int64_t step = 1; step <= 20; ++step) {
    said += report.StepDone(StepOf(step, 3 * report.Seconds(8)), false);
  }
  EXPECT_THAT(said, HasSubstr("slower than predicted"));
  EXPECT_THAT(said, Not(HasSubstr("most of it")));
}

TEST_F(Prediction, AResumedRunKnowsItsEarlierSteps) {
  const RunConfig config = PredictedRun();
  double model = 0;
  {
    PredictionReport first(config, TestContext(), folder_);
    first.ReadEarlierSteps(0);
    model = first.Seconds(8);
    MetricsFile metrics(folder_, 0);
    for (std::int64_t step = 1; step <= 10; ++step) {
      const StepFacts facts = StepOf(step, step == 1 ? 100 : 7);
      metrics.Add(config, facts, RatesOf(config, facts, 0), {.predicted_seconds = model});
    }
  }
  PredictionReport second(config, TestContext(), folder_);
  second.ReadEarlierSteps(10);
  EXPECT_DOUBLE_EQ(second.Seconds(8), 7);
  EXPECT_THAT(second.Expectation({}, 0), HasSubstr("from 10 earlier steps of this run"));

  RunConfig other = config;
  other.layout.micro_batch = 2;
  PredictionReport changed(other, TestContext(), folder_);
  changed.ReadEarlierSteps(10);
  EXPECT_LT(changed.Seconds(8), 5) << "another layout is predicted anew";
}

TEST_F(Prediction, CausesAddUpToTheStepsOfThisRank) {
  const PhaseTimes times{.phases = {{"batch", 1},
                                    {"forward", 2},
                                    {"backward", 3},
                                    {"receive", 0.5},
                                    {"reduce", 0.25},
                                    {"norm", 0.25},
                                    {"update", 1}},
                         .groups = {{"tensor", 4}, {"data", 5}, {"pipeline", 6}, {"world", 0.5}, {"tied", 0.5}}};
  const StepCauses causes = MeasuredCauses(times);
  EXPECT_DOUBLE_EQ(causes.data, 1);
  EXPECT_DOUBLE_EQ(causes.forward, 2);
  EXPECT_DOUBLE_EQ(causes.backward, 3);
  EXPECT_DOUBLE_EQ(causes.tensor, 4);
  EXPECT_DOUBLE_EQ(causes.replicas, 5.5);
  EXPECT_DOUBLE_EQ(causes.pipeline, 6.5);
  EXPECT_DOUBLE_EQ(causes.optimizer, 2);
  EXPECT_DOUBLE_EQ(causes.total(), 24);
}

}  // namespace
}  // namespace trireme
