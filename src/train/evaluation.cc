#include "train/evaluation.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "comm/shared_gpu.h"
#include "train/floats_on_host.h"
#include "train/gather_numbers.h"
#include "train/rank_parts.h"
#include "train/step_stats.h"

namespace trireme {
namespace {

// A task's samples `stride` apart; those between them, and beyond the last, weigh nothing.
class TaskSource final : public SampleSource {
 public:
  TaskSource(const EvaluationTask& task, std::int64_t stride, std::int64_t vocabulary)
      : task_(task), stride_(stride), vocabulary_(vocabulary), blank_(task.samples.front()) {
    blank_.weights.assign(blank_.tokens.size() - 1, 0.0F);
  }
  std::int64_t end() const { return static_cast<std::int64_t>(task_.samples.size()) * stride_; }

  std::int64_t vocabulary() const override { return vocabulary_; }
  std::string description() const override { return task_.name; }
  Sample Get(std::int64_t index) const override {
    return index % stride_ == 0 && index < end() ? task_.samples[static_cast<std::size_t>(index / stride_)] : blank_;
  }

 private:
  const EvaluationTask& task_;
  std::int64_t stride_;
  std::int64_t vocabulary_;
  Sample blank_;
};

// The sum of each micro batch's losses; zeros on ranks that do not speak for the head.
std::vector<double> MicroBatchLosses(RankParts& parts, int micro_batches) {
  std::vector<double> losses(static_cast<std::size_t>(micro_batches), 0.0);
  if (parts.SpeaksForTheHead()) {
    std::vector<float> sums(losses.size() * 2);
    parts.device().CopyToHost(sums.data(), parts.loader().loss_sums().data, static_cast<std::int64_t>(sums.size()) * 4);
    for (std::size_t i = 0; i < losses.size(); ++i) {
      losses[i] = sums[2 * i];
    }
  }
  return losses;
}

// Gives a chunk of a sample's logits to the task's function.
void DeliverLogits(Device& device, const LogitChunk& chunk, std::int64_t sample, const EvaluationTask& task) {
  const Tensor& logits = chunk.logits;
  const std::vector<float> padded = FloatsOnHost(device, logits);
  TaskLogits part{
      .sample = sample, .first_token = chunk.first_token, .first_column = chunk.first_column, .columns = chunk.columns};
  for (std::int64_t row = 0; row < logits.shape[0]; ++row) {
    const auto from = padded.begin() + row * logits.shape[1];
    part.values.insert(part.values.end(), from, from + chunk.columns);
  }
  task.logits(part);
}

}  // namespace

std::optional<double> ValidationLoss(RankParts& parts, SharedGpu& gpu, const SampleSource& source) {
  const RunConfig& config = parts.config();
  parts.zero().InvalidateMasters();
  const std::int64_t stride = static_cast<std::int64_t>(config.layout.micro_batch) * config.layout.data;
  const int most = parts.description().most_micro_batches;
  std::int64_t left = CeilDiv(config.validation.samples, stride);
  double loss = 0;
  double weight = 0;
  gpu.BeginPass(0);
  for (std::int64_t first = 0; left > 0; left -= most) {
    const int micro_batches = static_cast<int>(std::min<std::int64_t>(left, most));
    const std::vector<MicroBatch> batch =
        parts.loader().LoadEvaluation(source, first, micro_batches, config.validation.samples);
    gpu.BeginTogether();
    parts.runner().Evaluate(batch);
    const StepStats sums = SumStepStats(parts, micro_batches, false);
    loss += sums.loss;
    weight += sums.weight;
    first += micro_batches * stride;
  }
  gpu.EndPass();
  return weight > 0 ? std::optional(loss / weight) : std::nullopt;
}

std::vector<TaskScore> EvaluateTask(RankParts& parts, SharedGpu& gpu, const EvaluationTask& task) {
  const RunConfig& config = parts.config();
  Require(!task.samples.empty(), "the task '{}' has no samples", task.name);
  Require(!task.logits || (config.layout.micro_batch == 1 && config.layout.context == 1),
          "logits of the task '{}' need layout.micro_batch = 1 and layout.context = 1", task.name);
  parts.zero().InvalidateMasters();
  const std::int64_t batch = config.layout.micro_batch;
  const TaskSource source(task, task.apart ? batch : 1, config.model.vocabulary);
  const std::int64_t stride = batch * config.layout.data;
  const ProcessGrid grid(config.layout);
  std::vector<double> losses(task.apart ? task.samples.size() : 1, 0.0);
  gpu.BeginPass(0);
  for (std::int64_t first = 0; first < source.end();) {
    const auto micro_batches = static_cast<int>(
        std::min<std::int64_t>(CeilDiv(source.end() - first, stride), parts.description().most_micro_batches));
    std::vector<MicroBatch> loaded = parts.loader().LoadEvaluation(source, first, micro_batches, source.end());
    std::vector<LogitSink> sinks(task.logits ? loaded.size() : 0);
    for (std::size_t j = 0; j < sinks.size(); ++j) {
      const std::int64_t sample = first + static_cast<std::int64_t>(j) * config.layout.data + parts.coordinate().data;
      if (sample < static_cast<std::int64_t>(task.samples.size())) {
        sinks[j] = [&parts, sample, &task](const LogitChunk& chunk) {
          DeliverLogits(parts.device(), chunk, sample, task);
        };
        loaded[j].logits = &sinks[j];
      }
    }
    gpu.BeginTogether();
    parts.runner().Evaluate(loaded);
    std::vector<std::int64_t> bits;
    for (const double loss : MicroBatchLosses(parts, micro_batches)) {
      bits.push_back(std::bit_cast<std::int64_t>(loss));
    }
    // The numbers of every rank, on every rank: the sums are taken in one order everywhere.
    const auto by_rank = GatherNumbers(parts.world(), parts.device(), bits);
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      const std::int64_t data = grid.CoordinateOf(static_cast<int>(rank)).data;
      for (std::size_t j = 0; j < by_rank[rank].size(); ++j) {
        const std::int64_t sample = first / batch + static_cast<std::int64_t>(j) * config.layout.data + data;
        const auto at = static_cast<std::size_t>(task.apart ? sample : 0);
        if (at < losses.size()) {
          losses[at] += std::bit_cast<double>(by_rank[rank][j]);
        }
      }
    }
    first += micro_batches * stride;
  }
  gpu.EndPass();
  return task.judge(losses);
}

}  // namespace trireme
