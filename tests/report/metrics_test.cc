#include "report/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace trireme {
namespace {

class Metrics : public testing::Test {
 protected:
  Metrics() : folder_((std::filesystem::temp_directory_path() / "trireme-report-XXXXXX").string()) {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~Metrics() override { std::filesystem::remove_all(folder_); }

  void AddSteps(MetricsFile& file, std::int64_t first, std::int64_t last, double loss = 2) {
    RunConfig config;
    config.model = Completed(config.model);
    for (std::int64_t step = first; step <= last; ++step) {
      StepFacts facts;
      facts.result.step = step;
      facts.result.loss = loss;
      facts.result.seconds = 0.5;
      facts.result.global_batch = 8;
      facts.result.consumed_samples = 8 * step;
      file.Add(config, facts, RatesOf(config, facts, 0), 1000);
    }
  }
  std::vector<std::string> Lines() const {
    std::ifstream file(folder_ + "/metrics.jsonl");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) {
      lines.push_back(line);
    }
    return lines;
  }

  std::string folder_;
};

TEST_F(Metrics, ALineHasEveryKeyOfAStep) {
  {
    MetricsFile file(folder_, 0);
    AddSteps(file, 1, 1);
    file.AddValidation(1, 1.5);
  }
  ASSERT_EQ(Lines().size(), 2U);
  for (const char* key :
       {"step", "loss", "grad_norm", "learning_rate", "global_batch", "consumed_samples", "consumed_tokens", "seconds",
        "tokens_per_second", "tflops", "model_tflops", "loss_scale", "skipped", "memory_bytes"}) {
    EXPECT_THAT(Lines()[0], testing::HasSubstr('"' + std::string(key) + "\":")) << key;
  }
  EXPECT_EQ(Lines()[1], R"({"step":1,"validation_loss":1.5})");
}

TEST_F(Metrics, StepsAfterTheResumedOneAndTornLinesAreDropped) {
  {
    MetricsFile file(folder_, 0);
    AddSteps(file, 1, 5);
    file.AddValidation(5, 1.5);
  }
  std::ofstream(folder_ + "/metrics.jsonl", std::ios::app) << R"({"step":6,"lo)";
  {
    MetricsFile file(folder_, 3);
    AddSteps(file, 4, 4, 9);
  }
  const std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_THAT(lines[2], testing::StartsWith(R"({"step":3,)"));
  EXPECT_THAT(lines[3], testing::StartsWith(R"({"step":4,"loss":9.0,)"));
}

TEST_F(Metrics, ANumberThatIsNoneBecomesNull) {
  {
    MetricsFile file(folder_, 0);
    AddSteps(file, 1, 1, std::numeric_limits<double>::quiet_NaN());
  }
  EXPECT_THAT(Lines()[0], testing::HasSubstr(R"("loss":null)"));
}

}  // namespace
}  // namespace trireme
