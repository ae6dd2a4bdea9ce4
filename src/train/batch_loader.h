// Brings the samples of a step to the device, of each sequence the tokens of this context rank: a pure function of
// (samples consumed, data rank, context rank). The next batch's tokens
// are fetched by a thread of the loader's own while the step runs.
#pragma once

#include <future>
#include <vector>

#include "cost/rank_tensors.h"
#include "data/samples/sample_source.h"
#include "device/arena.h"
#include "lowering/local_sizes.h"
#include "nn/module.h"

namespace trireme {

class BatchLoader {
 public:
  struct Options {
    int data_rank = 0;
    int data_size = 1;
    bool document_masks = false;
    bool reads_tokens = true;  // false: a stage without embedding and head, which needs document masks at most
    std::uint64_t seed = 1;
  };
  // Takes its device tensors from the arena's message memory.
  BatchLoader(Arena& arena, const LocalSizes& sizes, const StepTensors& tensors, const Options& options);

  // Micro batch j of this data rank takes samples first + (j * data_size + data_rank) * B …. They stay valid until the
  // next call. loss_scale = 1 / (global batch * T).
  std::vector<MicroBatch> LoadTraining(const SampleSource& source, std::int64_t first, int micro_batches);
  // The samples of the next data rank instead, which are as many: for computing them in another place.
  std::vector<MicroBatch> LoadMoved(const SampleSource& source, std::int64_t first, int micro_batches);
  // The same without gradients; samples from `end` on weigh nothing, so that a count that no batch divides is exact.
  std::vector<MicroBatch> LoadEvaluation(const SampleSource& source, std::int64_t first, int micro_batches,
                                         std::int64_t end);
  // Fetches what the next LoadTraining with these arguments will want, in the background. `source` must live until
  // then.
  void Prepare(const SampleSource& source, std::int64_t first, int micro_batches);

 private:
  struct HostBatch {
    std::int64_t first = -1;
    int micro_batches = 0;
    const SampleSource* source = nullptr;
    std::vector<std::int32_t> tokens, targets, document_starts, positions;
    std::vector<float> weights;
  };
  bool NeedsSamples() const { return options_.reads_tokens || options_.document_masks; }
  HostBatch Fetch(const SampleSource& source, std::int64_t first, int micro_batches) const;
  // The elements of a sample's list, from `first` on, that belong to a share.
  template <typename Value>
  static void TakeShare(const std::vector<Value>& all, std::int64_t first, std::vector<Value>& to, std::size_t at,
                        const ContextShare& share);
  // Of each token of a sample in its document.
  std::vector<std::int32_t> PositionsIn(const std::vector<std::int32_t>& document_starts) const;
  std::int64_t SampleOf(std::int64_t first, int micro_batch, std::int64_t sequence) const;
  std::vector<MicroBatch> Upload(const HostBatch& batch, bool training);

  Device& device_;
  LocalSizes sizes_;
  Options options_;
  Tensor tokens_, targets_, weights_, document_starts_, loss_sums_, places_, positions_;
  std::future<HostBatch> next_;
};

}  // namespace trireme
