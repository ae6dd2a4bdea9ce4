#include "infer/staged_evaluation.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "train/first_weights.h"
#include "train/trainer.h"

namespace trireme {
namespace {

// Brings the logits of one sample, whose columns lie on the ranks with the head, to all ranks of the world: others add
// zeros.
class LogitCollector {
 public:
  LogitCollector(RankContext& context, std::int64_t length, std::int64_t vocabulary)
      : context_(context), vocabulary_(vocabulary), rows_(RowsAtOnce(length, vocabulary)), sample_(Count(length), 0) {
    memory_ = Tensor{context_.device.Allocate(rows_ * vocabulary_ * 4), DType::kFloat32, {rows_, vocabulary_}};
  }
  ~LogitCollector() { context_.device.Free(memory_.data); }
  LogitCollector(const LogitCollector&) = delete;
  LogitCollector& operator=(const LogitCollector&) = delete;

  void Take(const TaskLogits& part) {
    const auto rows = static_cast<std::int64_t>(part.values.size()) / std::max(part.columns, std::int64_t{1});
    const std::int64_t held = static_cast<std::int64_t>(sample_.size()) / vocabulary_;
    for (std::int64_t row = 0; row < rows && part.first_token + row < held; ++row) {
      std::copy_n(part.values.begin() + row * part.columns, part.columns,
                  sample_.begin() + (part.first_token + row) * vocabulary_ + part.first_column);
    }
  }
  // The values of the sample, which are forgotten here.
  std::vector<float> Collect() {
    const auto all = static_cast<std::int64_t>(sample_.size());
    for (std::int64_t first = 0; first < all; first += rows_ * vocabulary_) {
      const std::int64_t count = std::min(rows_ * vocabulary_, all - first);
      const Tensor part{memory_.data, DType::kFloat32, {count}};
      context_.device.CopyFromHost(part.data, sample_.data() + first, part.bytes());
      context_.world.AllReduce(part);
      context_.device.CopyToHost(sample_.data() + first, part.data, part.bytes());
    }
    return std::exchange(sample_, std::vector<float>(sample_.size(), 0.0F));
  }

 private:
  static std::int64_t RowsAtOnce(std::int64_t length, std::int64_t vocabulary) {
    constexpr std::int64_t kElements = std::int64_t{4} << 20;
    return std::clamp<std::int64_t>(kElements / vocabulary, 1, length);
  }
  std::size_t Count(std::int64_t length) const { return static_cast<std::size_t>(length * vocabulary_); }

  RankContext& context_;
  std::int64_t vocabulary_;
  std::int64_t rows_;
  std::vector<float> sample_;
  Tensor memory_;
};

// A whole sequence, of which what stands behind the sample's end weighs nothing and is seen by none of its tokens.
Sample Padded(Sample sample, std::int64_t sequence) {
  const auto targets = static_cast<std::size_t>(sequence);
  if (sample.weights.empty()) {
    sample.weights.assign(sample.tokens.size() - 1, 1.0F);
  }
  sample.tokens.resize(targets + 1, 0);
  sample.weights.resize(targets, 0.0F);
  if (!sample.document_starts.empty()) {
    sample.document_starts.resize(targets, 0);
  }
  return sample;
}

}  // namespace

RunConfig RunOfStages(const ModelFiles& files, const StagedOptions& options) {
  RunConfig run;
  run.model = files.model;
  if (run.model.rope_original == 0) {
    run.model.rope_original = files.model.sequence;
  }
  if (run.model.position != PositionChoice::kLearned) {
    run.model.sequence = options.length;
  }
  run.layout.tensor = options.tensor;
  run.layout.pipeline = options.pipeline;
  run.layout.partition = run.model.layers % options.pipeline == 0 ? "uniform" : "cost";
  run.batch.global = 1;
  run.optimizer.kind = OptimizerKind::kSgd;
  run.train.dtype = options.dtype;
  run.train.steps = 1;
  run.data.document_masks = options.documents;
  run.data.document_positions = options.documents && files.document_positions;
  Validate(run, options.tensor * options.pipeline);
  return run;
}

LossReport EvaluateInStages(const RunConfig& run, const std::string& weights, RankContext& context,
                            const LogitRequest& request, const Tokenizer* tokenizer) {
  Require(request.count > 0, "there is nothing to evaluate");
  Trainer trainer(run, context, {});
  LoadFirstWeights(weights, trainer);
  LossReport report;
  double total = 0;
  std::optional<LogitFile> file;
  std::optional<LogitCollector> collector;
  for (std::int64_t index = 0; index < request.count; ++index) {
    const Sample sample = request.get(index);
    const auto length = static_cast<std::int64_t>(sample.tokens.size()) - 1;
    const Sample padded = Padded(sample, run.model.sequence);
    if (!request.path.empty() && index == 0) {
      collector.emplace(context, length, run.model.vocabulary);
      if (context.world.rank() == 0) {
        file.emplace(request, length, run.model.vocabulary);
      }
    }
    EvaluationTask task{.name = "samples",
                        .samples = {padded},
                        .judge = [](const std::vector<double>& losses) -> std::vector<TaskScore> {
                          return {{"loss", losses.front()}};
                        }};
    if (collector) {
      task.logits = [&](const TaskLogits& part) { collector->Take(part); };
    }
    total += trainer.Evaluate(task).front().value;
    if (collector) {
      const std::vector<float> logits = collector->Collect();
      if (file) {
        file->Append(logits);
      }
    }
    for (const float weight : padded.weights) {
      report.weight += weight;
    }
    ++report.samples;
    report.bytes += tokenizer == nullptr ? 0 : BytesOfTargets(padded.tokens, padded.weights, *tokenizer);
  }
  if (file) {
    file->Close();
  }
  Require(report.weight > 0, "every target of the {} samples is masked out", request.count);
  report.loss = total / report.weight;
  return report;
}

}  // namespace trireme
