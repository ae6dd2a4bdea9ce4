// Executes a Schedule over the virtual stages of a rank: the trainer's reader of the data that the planner plays.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "comm/ledger.h"
#include "nn/stage.h"
#include "schedule/schedule.h"

namespace trireme {

class PipelineRunner {
 public:
  // The tensors that cross stage borders; [n, C] each.
  struct Buffers {
    Tensor output;  // not given where no stage follows
    Tensor gradient_a;
    Tensor gradient_b;
  };
  // `stages` by chunk. The group outlives this.
  PipelineRunner(Communicator& pipeline, std::vector<std::unique_ptr<Stage>> stages, const Buffers& buffers);

  // Told of each action as a phase and of each module as a beat; nullptr: nobody. Outlives this or is replaced.
  void set_ledger(Ledger* ledger);

  // All actions of this rank's stage, in order. micro_batches by number.
  void Run(const Schedule& schedule, const SlotPlan& slots, std::span<const MicroBatch> micro_batches,
           std::int64_t step = 0);
  // Forward only, one micro batch after another; micro batches must not be training.
  void Evaluate(std::span<const MicroBatch> micro_batches);

 private:
  void Execute(const Action& action, const Schedule& schedule, int slot, const MicroBatch& micro_batch);
  // Messages of a (virtual stage, micro batch) have a tag of their own, so that no schedule can mix them up.
  int Tag(int sender_virtual_stage, int micro_batch, bool gradient) const;
  int stages() const { return pipeline_.size(); }

  Communicator& pipeline_;
  std::vector<std::unique_ptr<Stage>> chunks_;
  Buffers buffers_;
  Tensor gradient_;  // the input gradient that the last backward left
  Ledger* ledger_ = nullptr;
};

}  // namespace trireme
