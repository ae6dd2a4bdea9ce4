#include "train/evaluation.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "train/begin_together.h"
#include "train/floats_on_host.h"
#include "train/gather_numbers.h"
#include "train/trainer.h"

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

}  // namespace

std::vector<double> Trainer::MicroBatchLosses(int micro_batches) const {
  std::vector<double> losses(static_cast<std::size_t>(micro_batches), 0.0);
  if (stage_.description().HoldsHead() && comms_.coordinate().tensor == 0) {
    std::vector<float> sums(losses.size() * 2);
    device_.CopyToHost(sums.data(), loss_sums_.data, static_cast<std::int64_t>(sums.size()) * 4);
    for (std::size_t i = 0; i < losses.size(); ++i) {
      losses[i] = sums[2 * i];
    }
  }
  return losses;
}

void Trainer::HandOver(const LogitChunk& chunk, std::int64_t sample, const EvaluationTask& task) const {
  const Tensor& logits = chunk.logits;
  const std::vector<float> padded = FloatsOnHost(device_, logits);
  TaskLogits part{
      .sample = sample, .first_token = chunk.first_token, .first_column = chunk.first_column, .columns = chunk.columns};
  for (std::int64_t row = 0; row < logits.shape[0]; ++row) {
    const auto from = padded.begin() + row * logits.shape[1];
    part.values.insert(part.values.end(), from, from + chunk.columns);
  }
  task.logits(part);
}

std::vector<TaskScore> Trainer::Evaluate(const EvaluationTask& task) {
  Require(!task.samples.empty(), "the task '{}' has no samples", task.name);
  Require(!task.logits || (config_.layout.micro_batch == 1 && config_.layout.context == 1),
          "logits of the task '{}' need layout.micro_batch = 1 and layout.context = 1", task.name);
  zero_->DropState();
  const std::int64_t batch = config_.layout.micro_batch;
  const TaskSource source(task, task.apart ? batch : 1, config_.model.vocabulary);
  const std::int64_t stride = batch * config_.layout.data;
  const ProcessGrid grid(config_.layout);
  std::vector<double> losses(task.apart ? task.samples.size() : 1, 0.0);
  const bool is_first = BeginFirst(0);
  for (std::int64_t first = 0; first < source.end();) {
    const auto micro_batches = static_cast<int>(
        std::min<std::int64_t>(CeilDiv(source.end() - first, stride), stage_.description().most_micro_batches));
    std::vector<MicroBatch> loaded = loader_->LoadEvaluation(source, first, micro_batches, source.end());
    loss_sums_ = loaded.front().loss_sums;
    std::vector<LogitSink> sinks(task.logits ? loaded.size() : 0);
    for (std::size_t j = 0; j < sinks.size(); ++j) {
      const std::int64_t sample = first + static_cast<std::int64_t>(j) * config_.layout.data + comms_.coordinate().data;
      if (sample < static_cast<std::int64_t>(task.samples.size())) {
        sinks[j] = [this, sample, &task](const LogitChunk& chunk) { HandOver(chunk, sample, task); };
        loaded[j].logits = &sinks[j];
      }
    }
    BeginTogether(comms_.world());
    runner_->Evaluate(loaded);
    std::vector<std::int64_t> bits;
    for (const double loss : MicroBatchLosses(micro_batches)) {
      bits.push_back(std::bit_cast<std::int64_t>(loss));
    }
    // Of every rank, on every rank: the sums are taken in one order everywhere.
    const auto by_rank = GatherNumbers(comms_.world(), device_, bits);
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      const std::int64_t data = grid.CoordinateOf(static_cast<int>(rank)).data;
      for (std::size_t j = 0; j < by_rank[rank].size(); ++j) {
        const std::int64_t sample = first / batch + static_cast<std::int64_t>(j) * config_.layout.data + data;
        const auto at = static_cast<std::size_t>(task.apart ? sample : 0);
        if (at < losses.size()) {
          losses[at] += std::bit_cast<double>(by_rank[rank][j]);
        }
      }
    }
    first += micro_batches * stride;
  }
  if (is_first) {
    EndFirst();
  }
  return task.judge(losses);
}

}  // namespace trireme
