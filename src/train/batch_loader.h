// Brings the samples of a step to the device, of each sequence the tokens of this context rank: a pure function of
// (samples consumed, data rank, context rank). Which samples a step has does not depend on the layout; which of them a
// rank has may follow their work (work_balance.h). The next batch's tokens are fetched by a thread of the loader's own
// while the step runs.
#pragma once

#include <future>
#include <optional>
#include <vector>

#include "cost/rank_tensors.h"
#include "data/samples/sample_source.h"
#include "device/arena.h"
#include "lowering/local_sizes.h"
#include "nn/module.h"
#include "train/work_balance.h"

namespace trireme {

class BatchLoader {
 public:
  struct Options {
    int data_rank = 0;
    int data_size = 1;
    bool document_masks = false;
    bool reads_tokens = true;  // false: a stage without embedding and head, which needs document masks at most
    std::uint64_t seed = 1;
    // Counts the attention work of document masks by this model's layers. It outlives the loader; nullptr: not counted.
    const ModelConfig* model = nullptr;
    bool balance = false;  // samples are dealt by that work, not by number
  };
  // Takes its device tensors from the arena's message memory.
  BatchLoader(Arena& arena, const LocalSizes& sizes, const StepTensors& tensors, const Options& options);

  // The samples of a step are first … first + data_size * micro_batches * B - 1. By number, micro batch j of this data
  // rank takes those from first + (j * data_size + data_rank) * B on. Tensors stay valid until the next call.
  // gradient_factor = 1 / (global batch * T).
  std::vector<MicroBatch> LoadTraining(const SampleSource& source, std::int64_t first, int micro_batches);
  // The samples of the next data rank instead, which are as many: for computing them in another place.
  std::vector<MicroBatch> LoadMoved(const SampleSource& source, std::int64_t first, int micro_batches);
  // Loads an evaluation, without gradients; samples from `end` on weigh nothing, so that a count that no batch divides
  // is exact.
  std::vector<MicroBatch> LoadEvaluation(const SampleSource& source, std::int64_t first, int micro_batches,
                                         std::int64_t end);
  // Fetches what the next LoadTraining with these arguments will want, in the background. `source` must live until
  // then.
  void Prepare(const SampleSource& source, std::int64_t first, int micro_batches);
  // The balance of the last LoadTraining; nothing where no work is counted.
  const std::optional<WorkBalance>& balance() const { return balance_; }
  // Two numbers of each micro batch that was loaded last, as the head writes them: MicroBatch::loss_sums.
  Tensor loss_sums() const { return loss_sums_.Range(0, std::int64_t{2} * loaded_); }

 private:
  struct HostBatch {
    std::int64_t first = -1;
    int micro_batches = 0;
    const SampleSource* source = nullptr;
    std::vector<std::int64_t> samples;  // of this data rank, micro batch by micro batch
    std::optional<WorkBalance> balance;
    std::vector<std::int32_t> tokens, targets, document_starts, positions;
    std::vector<float> weights;
  };
  bool NeedsSamples() const { return options_.reads_tokens || options_.document_masks; }
  // The numbers of this data rank's samples, with their balance where it is counted.
  HostBatch Choose(const SampleSource& source, std::int64_t first, int micro_batches, bool training) const;
  HostBatch Fetch(const SampleSource& source, std::int64_t first, int micro_batches, bool training) const;
  // The elements of a sample's list, from `first` on, that belong to a share.
  template <typename Value>
  static void TakeShare(const std::vector<Value>& all, std::int64_t first, std::vector<Value>& to, std::size_t at,
                        const ContextShare& share);
  // Position of each token of a sample in its document.
  std::vector<std::int32_t> PositionsIn(const std::vector<std::int32_t>& document_starts) const;
  std::vector<MicroBatch> Upload(const HostBatch& batch, bool training);

  Device& device_;
  LocalSizes sizes_;
  Options options_;
  Tensor tokens_, targets_, weights_, document_starts_, loss_sums_, places_, positions_;
  std::future<HostBatch> next_;
  std::optional<WorkBalance> balance_;
  int loaded_ = 0;  // micro batches of the last call
};

}  // namespace trireme
