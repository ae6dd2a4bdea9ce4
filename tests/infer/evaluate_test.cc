#include "infer/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "comm/rank_runner.h"
#include "infer/evaluation_samples.h"
#include "infer/small_model.h"
#include "infer/staged_evaluation.h"
#include "operate/training_loop.h"
#include "parity/short_documents.h"

namespace trireme {
namespace {

LossReport EvaluateRun(const ModelFiles& files, const RunConfig& config, std::int64_t batch, int ranks) {
  const auto source = OpenRunSource(config, "validation");
  LossReport report;
  const InferenceOptions options{.batch = batch, .rows = batch * config.model.sequence};
  WithModel(files, {.options = options, .ranks = ranks}, [&](InferenceModel& model, int rank) {
    const LossReport own = EvaluateSamples(
        model, config.validation.samples, [&](std::int64_t index) { return source->Get(index); }, nullptr);
    if (rank == 0) {
      report = own;
    }
  });
  return report;
}

TEST(Evaluate, IsTheValidationLossOfTheTrainer) {
  for (const char* family : {"gpt2", "bloom", "llama"}) {
    RunConfig config = SmallModel(family);
    config.layout.tensor = 2;
    config.layout.pipeline = 2;
    const ScratchDirectory folder;
    const double expected = TrainSmallModel(config, folder.path());
    const ModelFiles files = OpenModelFiles(folder.path());
    for (const auto& [batch, ranks] : {std::pair{4, 1}, std::pair{3, 2}}) {
      const LossReport report = EvaluateRun(files, config, batch, ranks);
      EXPECT_NEAR(report.loss, expected, 1e-5 * expected) << family << " on " << ranks << " ranks";
      EXPECT_EQ(report.samples, config.validation.samples);
      EXPECT_EQ(report.weight, static_cast<double>(config.validation.samples * config.model.sequence));
      EXPECT_EQ(report.bits_per_byte(), 0) << "no tokenizer was given";
      EXPECT_DOUBLE_EQ(report.perplexity(), std::exp(report.loss));
    }
  }
}

// Packed documents with learned positions of their own: the command reads the dataset as the run did.
TEST(Evaluate, PacksDocumentsAsTheRunDid) {
  const ScratchDirectory folder;
  RunConfig config = SmallModel("gpt2");
  config.data.source = parity::ShortDocuments(folder);
  config.data.split = "50,50,0";
  config.data.packing = Packing::kBestFit;
  config.data.document_masks = true;
  config.data.document_positions = true;
  const double expected = TrainSmallModel(config, folder / "run");
  const ModelFiles files = OpenModelFiles(folder / "run");
  const std::int64_t length = config.model.sequence;
  const EvaluationSamples work = OpenEvaluation(files, {.samples = config.validation.samples, .length = length});
  ASSERT_EQ(work.count, config.validation.samples);
  const auto loss = [&](bool anew) {
    const InferenceOptions options{.batch = 4, .rows = 4 * length, .document_positions = anew};
    LossReport report;
    WithModel(files, {.options = options},
              [&](InferenceModel& model, int) { report = EvaluateSamples(model, work.count, work.get, nullptr); });
    return report.loss;
  };
  EXPECT_TRUE(files.document_positions);
  EXPECT_NEAR(loss(true), expected, 1e-5 * expected);
  EXPECT_GT(std::abs(loss(false) - expected), 1e-4 * expected);
  const RunConfig staged = RunOfStages(files, {.pipeline = 2, .length = length, .documents = true});
  const LogitRequest request{.count = work.count, .get = work.get, .path = ""};
  RunThreadRanks(staged.layout.ranks(), {.kind = "cpu", .threads = 1}, [&](RankContext& context) {
    const LossReport report = EvaluateInStages(staged, files.weights, context, request, nullptr);
    EXPECT_NEAR(report.loss, expected, 1e-5 * expected);
  });
  // All samples of the split, with an end.
  const std::int64_t all = OpenEvaluation(files, {.length = length}).count;
  EXPECT_GT(all, 1);
  EXPECT_LT(all, 100);
}

TEST(Evaluate, BitsPerByteOfATextGoByItsBytes) {
  RunConfig config = SmallModel("gpt2");
  config.model.vocabulary = 256;
  const ScratchDirectory folder;
  TrainSmallModel(config, folder.path());
  const ModelFiles files = OpenModelFiles(folder.path());
  const auto tokenizer = LoadModelTokenizer(files, "");
  const TextWindows windows(tokenizer->Encode("thirty bytes of English text.\n"), config.model.sequence);
  ASSERT_EQ(windows.count(), 3);
  WithModel(files, {.options = {.batch = 2, .rows = 2 * config.model.sequence}}, [&](InferenceModel& model, int) {
    const LossReport report = EvaluateSamples(
        model, windows.count(), [&](std::int64_t index) { return windows.Get(index); }, tokenizer.get());
    EXPECT_EQ(report.bytes, 29);
    EXPECT_EQ(report.weight, 29);
    EXPECT_NEAR(report.bits_per_byte(), report.loss / std::log(2.0), 1e-9);
  });
}

TEST(TextWindows, EveryTokenButTheFirstIsATargetOnce) {
  std::vector<std::int32_t> tokens(11);
  std::iota(tokens.begin(), tokens.end(), 0);
  const TextWindows windows(tokens, 4);
  std::vector<std::int32_t> targets;
  for (std::int64_t i = 0; i < windows.count(); ++i) {
    const Sample sample = windows.Get(i);
    EXPECT_LE(sample.tokens.size(), 5U);
    targets.insert(targets.end(), sample.tokens.begin() + 1, sample.tokens.end());
  }
  EXPECT_EQ(targets, std::vector<std::int32_t>(tokens.begin() + 1, tokens.end()));
  EXPECT_THROW(TextWindows({1}, 4), Error);
}

TEST(InferenceModel, RefusesAGroupThatCannotCutTheModel) {
  const ScratchDirectory folder;
  TrainSmallModel(SmallModel("gpt2"), folder.path());
  const ModelFiles files = OpenModelFiles(folder.path());
  EXPECT_THROW(WithModel(files, {.options = {.rows = 4}, .ranks = 5}, [](InferenceModel&, int) {}), Error);
}

}  // namespace
}  // namespace trireme
