// Executes a Schedule over the virtual stages of a rank: the trainer's reader of the data that the planner plays.
#pragma once

#include <functional>
#include <map>
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
  // `stages` by chunk. Group and device outlive this. Collective over the group.
  PipelineRunner(Communicator& pipeline, Device& device, const StagePlacement& placement,
                 std::vector<std::unique_ptr<Stage>> stages, const Buffers& buffers);

  // What may be recorded by the device and repeated (Device::Repeat): computations that start the same operations in
  // every step and meet no other rank but over a tensor group that is recordable.
  enum class Repeats : std::uint8_t {
    kNothing,
    kAllButLast,  // not those of a chunk's last micro batch, which start reductions
    kEverything,
  };
  // `tensor` is told of its collectives in recorded work; it outlives this.
  void set_repeats(Repeats repeats, Communicator& tensor) {
    repeats_ = repeats;
    tensor_ = &tensor;
  }

  // Records what Run would repeat, without starting it. After one Run of the same counts.
  void Record(const Schedule& schedule, const SlotPlan& slots, std::span<const MicroBatch> micro_batches);

  // Whether each chunk of this stage has one action that is the first to add gradients, so that MicroBatch::first is
  // set: not where a schedule splits the backward of some micro batches only.
  bool FirstWriteIsUnique(const Schedule& schedule) const;

  // Told of each action as a phase and of each module as a beat; nullptr: no ledger. Outlives this or is replaced.
  void set_ledger(Ledger* ledger);

  // By chunk.
  const std::vector<std::unique_ptr<Stage>>& stages() const { return chunks_; }

  // All actions of this rank's stage, in order. micro_batches by number. The schedule has this runner's placement.
  void Run(const Schedule& schedule, const SlotPlan& slots, std::span<const MicroBatch> micro_batches,
           std::int64_t step = 0);
  // Forward only, one micro batch after another; micro batches must not be training.
  void Evaluate(std::span<const MicroBatch> micro_batches);

 private:
  // A schedule that is being run, with what its actions work on.
  struct Course {
    const Schedule& schedule;
    const SlotPlan& slots;
    std::span<const MicroBatch> micro_batches;
  };
  // Whether an action is the first or the last of the step with such work for its chunk.
  struct Position {
    bool first = false;
    bool last = false;
  };
  static std::vector<Position> PositionsOf(std::span<const Action> actions);
  void Execute(const Course& course, const Action& action, const Position& position);
  bool IsRepeated(const Action& action, const Position& position) const;
  // Names a computation of a step of so many micro batches.
  std::int64_t KeyOf(const Course& course, const Action& action) const;
  // With the tensor group's calls going into collectives_ when the device records.
  void ComputeRepeated(const Course& course, const Action& action, const Position& position);
  void Compute(const Course& course, const Action& action, const Position& position);
  // Messages of a (virtual stage, micro batch) have a tag of their own, so that no schedule can mix them up.
  int Tag(int sender_virtual_stage, int micro_batch, bool gradient) const;
  // Where a virtual stage of this rank writes its output: the input of the next, if that is of this rank too.
  Tensor OutputOf(int virtual_stage, const SlotPlan& slots, std::size_t micro_batch) const;

  Communicator& pipeline_;
  Device& device_;
  StagePlacement placement_;
  std::vector<std::unique_ptr<Stage>> chunks_;
  Buffers buffers_;
  Tensor gradient_;                           // the input gradient that the last backward left
  std::map<std::int64_t, Tensor> gradients_;  // that of each repeated action, by its key
  Repeats repeats_ = Repeats::kNothing;
  Communicator* tensor_ = nullptr;
  std::map<std::int64_t, std::vector<CollectiveCall>> collectives_;  // within each repeated action, by its key
  Ledger* ledger_ = nullptr;
};

}  // namespace trireme
