#include "report/metrics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>

#include "report/events.h"

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
      file.Add(config, facts, RatesOf(config, facts, 0), {.memory_bytes = 1000});
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
        "predicted_seconds", "tokens_per_second", "tflops", "model_tflops", "skipped", "memory_bytes"}) {
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

TEST_F(Metrics, AResumeKeepsEveryLineUpToItsStepHoweverLongTheFile) {
  constexpr std::int64_t kSteps = 600;  // some blocks of the file
  {
    MetricsFile file(folder_, 0);
    AddSteps(file, 1, kSteps);
  }
  const std::vector<std::string> all = Lines();
  ASSERT_EQ(all.size(), static_cast<std::size_t>(kSteps));
  for (const std::int64_t step : {kSteps, kSteps - 1, kSteps / 2, std::int64_t{1}, std::int64_t{0}}) {
    { MetricsFile file(folder_, step); }
    EXPECT_EQ(Lines(), std::vector<std::string>(all.begin(), all.begin() + step)) << step;
  }
}

TEST_F(Metrics, AFileOfAnythingElseIsEmptied) {
  for (const std::string& text : {std::string(200'000, 'x'), std::string(200'000, '\n'), std::string(70'000, '\0'),
                                  std::string(R"({"step":1})"), std::string("[1]\n{\"step\":\"1\"}\n")}) {
    std::ofstream(folder_ + "/metrics.jsonl", std::ios::binary) << text;
    { MetricsFile file(folder_, 5); }
    EXPECT_EQ(std::filesystem::file_size(folder_ + "/metrics.jsonl"), 0U) << text.substr(0, 20);
  }
}

TEST_F(Metrics, ANumberThatIsNoneBecomesNull) {
  {
    MetricsFile file(folder_, 0);
    AddSteps(file, 1, 1, std::numeric_limits<double>::quiet_NaN());
  }
  EXPECT_THAT(Lines()[0], testing::HasSubstr(R"("loss":null)"));
}

// Files of this process end at so many bytes, as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit full{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &full);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
};

TEST_F(Metrics, RowsThatAFullDiskDoesNotTakeComeWhenItHasRoom) {
  std::vector<std::string> messages;
  std::vector<std::string> whole;
  {
    MetricsFile file(folder_, 0, [&](const std::string& text) { messages.push_back(text); });
    AddSteps(file, 1, 4);
    {
      const auto size = static_cast<rlim_t>(std::filesystem::file_size(folder_ + "/metrics.jsonl"));
      const FullDisk full(size + 100);  // a row does not fit, a part of it does
      AddSteps(file, 5, 9);
      EXPECT_EQ(file.waiting(), 5U);
      EXPECT_EQ(std::filesystem::file_size(folder_ + "/metrics.jsonl"), size);
    }
    AddSteps(file, 10, 10);
    EXPECT_EQ(file.waiting(), 0U);
  }
  EXPECT_THAT(messages, testing::ElementsAre(testing::HasSubstr("kept in memory")));
  const std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), 10U);
  for (std::size_t step = 1; step <= lines.size(); ++step) {
    EXPECT_THAT(lines[step - 1], testing::StartsWith(fmt::format("{{\"step\":{},", step)));
    EXPECT_THAT(lines[step - 1], testing::EndsWith("}"));
  }
}

TEST_F(Metrics, ARunThatGoesBackDropsLaterRowsThatWait) {
  MetricsFile file(folder_, 0);
  AddSteps(file, 1, 2);
  {
    const FullDisk full(std::filesystem::file_size(folder_ + "/metrics.jsonl"));
    AddSteps(file, 3, 6);
    file.GoBack(4);
    EXPECT_EQ(file.waiting(), 2U);
  }
  AddSteps(file, 5, 5);
  EXPECT_EQ(Lines().size(), 5U);
}

TEST_F(Metrics, AnEventAfterATornLineHasALineOfItsOwn) {
  std::ofstream(folder_ + "/events.jsonl") << "{\"time\":1,\"st";
  EXPECT_TRUE(AppendEvent(folder_, {.time = 2, .step = 3, .kind = "note", .text = "x"}));
  ASSERT_EQ(ReadEvents(folder_).size(), 1U);
  const FullDisk full(std::filesystem::file_size(folder_ + "/events.jsonl") + 5);
  EXPECT_FALSE(AppendEvent(folder_, {.time = 4, .step = 5, .kind = "note", .text = "y"}));
  EXPECT_EQ(ReadEvents(folder_).size(), 1U);
}

}  // namespace
}  // namespace trireme
