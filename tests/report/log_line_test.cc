#include "report/log_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "cost/formulas.h"
#include "report/step_causes.h"

namespace trireme {
namespace {

RunConfig SomeRun() {
  RunConfig config;
  config.model.sequence = 128;
  config.model = Completed(config.model);
  config.layout.tensor = 2;
  config.layout.data = 2;
  config.log.format = LogFormat::kMegatron;
  return config;
}

StepFacts SomeStep() {
  StepFacts facts;
  facts.result.step = 12;
  facts.result.loss = 5.25;
  facts.result.gradient_norm = 1.5;
  facts.result.learning_rate = 3e-4;
  facts.result.global_batch = 16;
  facts.result.consumed_samples = 192;
  facts.result.consumed_tokens = 192 * 128;
  facts.result.seconds = 0.5;
  facts.total_steps = 200;
  facts.skipped_steps = 3;
  facts.nan_steps = 1;
  facts.hardware_flops = 4e12;
  return facts;
}

// What parsers of published logs look for, in their order.
TEST(LogLine, HasThePublishedNamesInThePublishedOrder) {
  const std::regex published(
      R"(iteration\s+(\d+)/\s*(\d+) \| consumed samples:\s+(\d+) \| consumed tokens:\s+(\d+) \| )"
      R"(elapsed time per iteration \(s\): ([\d.]+) \| learning rate: (\S+) \| global batch size:\s+(\d+) \| )"
      R"(lm loss: (\S+) \| grad norm: (\S+) \| num zeros: (\S+) \| )"
      R"(number of skipped iterations:\s+(\d+) \| number of nan iterations:\s+(\d+) \| )"
      R"(samples per second: (\S+) \| TFLOPs: (\S+) \|.*)");
  RunConfig config = SomeRun();
  config.train.count_zeros = true;
  const StepFacts facts = SomeStep();
  const std::string line = LogLine(config, facts, RatesOf(config, facts, 0));
  std::smatch found;
  ASSERT_TRUE(std::regex_match(line, found, published)) << line;
  EXPECT_EQ(found[1], "12");
  EXPECT_EQ(found[2], "200");
  EXPECT_EQ(found[3], "192");
  EXPECT_EQ(std::stoll(found[4]), 192 * 128);
  EXPECT_DOUBLE_EQ(std::stod(found[5]), 0.5);
  EXPECT_DOUBLE_EQ(std::stod(found[6]), 3e-4);
  EXPECT_EQ(found[7], "16");
  EXPECT_DOUBLE_EQ(std::stod(found[8]), 5.25);
  EXPECT_DOUBLE_EQ(std::stod(found[9]), 1.5);
  EXPECT_EQ(found[11], "3");
  EXPECT_EQ(found[12], "1");
  EXPECT_DOUBLE_EQ(std::stod(found[13]), 32);
  EXPECT_DOUBLE_EQ(std::stod(found[14]), 2);
}

TEST(LogLine, ShowsTheLossScaleOfFloat16) {
  StepFacts facts = SomeStep();
  facts.result.loss_scale = 65536;
  for (const auto& [format, text] :
       {std::pair{LogFormat::kMegatron, "| loss scale: 65536.0 | grad norm"}, {LogFormat::kShort, "  scale 65536"}}) {
    RunConfig config = SomeRun();
    config.log.format = format;
    EXPECT_THAT(LogLine(config, facts, RatesOf(config, facts, 0)), testing::Not(testing::HasSubstr("scale")));
    config.train.dtype = "fp16";
    EXPECT_THAT(LogLine(config, facts, RatesOf(config, facts, 0)), testing::HasSubstr(text));
  }
}

TEST(TimersLine, NamesEachCauseWithItsSeconds) {
  EXPECT_EQ(TimersLine({.data = 0.1, .forward = 0.25, .tensor = 1e-4}),
            "timers (s) | data 0.1000 | forward 0.2500 | backward 0.0000 | tensor 0.0001 | replicas 0.0000 | pipeline "
            "0.0000 | optimizer 0.0000");
}

// A field that is always there with a value that was never measured is worse than none.
TEST(LogLine, LeavesOutWhatIsNotKnown) {
  const StepFacts facts = SomeStep();
  const std::string line = LogLine(SomeRun(), facts, RatesOf(SomeRun(), facts, 0));
  EXPECT_THAT(line, testing::Not(testing::HasSubstr("num zeros")));
  EXPECT_THAT(line, testing::Not(testing::HasSubstr("loss scale")));
}

TEST(LogLine, TheShortOneFitsIn80ColumnsWhateverItsNumbers) {
  RunConfig config = SomeRun();
  config.log.format = LogFormat::kShort;
  StepFacts facts = SomeStep();
  facts.skipped_steps = 0;
  facts.result.global_batch = config.batch.global;
  EXPECT_EQ(LogLine(config, facts, RatesOf(config, facts, 0)),
            "step  12/200  loss 5.2500  norm 1.5  lr 3.0e-04  0.5 s  2.05k tok/s");
  facts.skipped_steps = 3;
  facts.result.global_batch = 16;
  EXPECT_EQ(LogLine(config, facts, RatesOf(config, facts, 0)),
            "step  12/200  loss 5.2500  norm 1.5  lr 3.0e-04  0.5 s  4.1k tok/s  3 skipped");
  facts.result.step = 123'456;
  facts.total_steps = 123'456;
  facts.result.loss = 12.34567;
  facts.result.gradient_norm = 1.23456e-7;
  facts.result.global_batch = 16'384;
  facts.result.seconds = 123.4567;
  facts.skipped_steps = 12;
  const std::string line = LogLine(config, facts, RatesOf(config, facts, 1e12));
  EXPECT_LE(line.size(), 80U) << line;
  EXPECT_THAT(line, testing::HasSubstr("  12 skipped"));
  EXPECT_THAT(line, testing::HasSubstr("  MFU "));
}

TEST(LogLine, ShowsASmallModelsFlopsInAUnitThatFits) {
  StepFacts facts = SomeStep();
  for (const auto& [tflops, shown] : std::vector<std::pair<double, const char*>>{
           {0.5, "model TFLOPs: 0.50 |"}, {0.0123, "model GFLOPs: 12.30 |"}, {4e-6, "model MFLOPs: 4.00 |"}}) {
    StepRates rates = RatesOf(SomeRun(), facts, 0);
    rates.model_tflops = tflops;
    rates.tflops = 2 * tflops;
    EXPECT_THAT(LogLine(SomeRun(), facts, rates), testing::HasSubstr(shown));
  }
}

TEST(LogLine, TheShareOfThePeakIsShownOnlyWhenThePeakIsKnown) {
  const RunConfig config = SomeRun();
  const StepFacts facts = SomeStep();
  EXPECT_EQ(LogLine(config, facts, RatesOf(config, facts, 0)).find("share of peak"), std::string::npos);
  EXPECT_NE(LogLine(config, facts, RatesOf(config, facts, 1e12)).find("share of peak"), std::string::npos);
}

TEST(StepRates, AreForOneDeviceAndOneSecond) {
  const RunConfig config = SomeRun();
  const StepFacts facts = SomeStep();
  const StepRates rates = RatesOf(config, facts, 1e12);
  EXPECT_DOUBLE_EQ(rates.samples_per_second, 32);
  EXPECT_DOUBLE_EQ(rates.tokens_per_second, 32 * 128);
  EXPECT_DOUBLE_EQ(rates.tflops, 4e12 / 0.5 / 4 / 1e12);
  EXPECT_DOUBLE_EQ(rates.model_tflops, ModelFlops(config.model, 16) / 0.5 / 4 / 1e12);
  EXPECT_DOUBLE_EQ(rates.share_of_peak, rates.model_tflops);
}

}  // namespace
}  // namespace trireme
