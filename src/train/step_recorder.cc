#include "train/step_recorder.h"

#include "base/error.h"

namespace trireme {

StepRecorder::StepRecorder(RankParts& parts, SharedGpu& gpu, bool dynamic_loss_scale)
    : parts_(parts), gpu_(gpu), dynamic_loss_scale_(dynamic_loss_scale) {}

void StepRecorder::set_ledger(Ledger* ledger) {
  ledger_ = ledger;
  parts_.runner().set_ledger(ledger);
}

void StepRecorder::Run(std::span<const MicroBatch> batch, std::int64_t step) {
  const auto micro_batches = static_cast<int>(batch.size());
  const PlannedSchedule& plan = ScheduleFor(micro_batches);
  PipelineRunner& runner = parts_.runner();
  const bool first_writes = runner.FirstWriteIsUnique(plan.schedule);
  const auto run = [&] {
    parts_.zero().BeginStep(first_writes, step);
    runner.Run(plan.schedule, plan.slots, batch, step);
  };
  if (StepsAreAlike() && parts_.config().layout.ranks() == 1) {
    if (ledger_ != nullptr) {
      ledger_->SetPhase(step, "forward");
    }
    parts_.device().Repeat(micro_batches, run);
    return;
  }
  runner.set_repeats(Repeated(micro_batches), parts_.comms().tensor());
  gpu_.RecordWhileIdle(micro_batches, [&] {
    parts_.zero().BeginStep(first_writes);
    runner.Record(plan.schedule, plan.slots, batch);
  });
  run();
}

const StepRecorder::PlannedSchedule& StepRecorder::ScheduleFor(int micro_batches) {
  const RunConfig& config = parts_.config();
  const auto [place, inserted] = schedules_.try_emplace(micro_batches);
  if (inserted) {
    place->second.schedule =
        MakeSchedule(config.layout.schedule, config.layout.pipeline, config.layout.chunks, micro_batches);
    place->second.slots = PlanSlots(place->second.schedule, parts_.coordinate().pipeline);
    for (std::size_t stage = 0; stage < place->second.schedule.actions.size(); ++stage) {
      if (static_cast<int>(stage) != parts_.coordinate().pipeline) {
        place->second.schedule.actions[stage] = {};  // other ranks'
      }
    }
    // Memory was planned for the batches of a run from its first step; a resumed ramp-up may come to others.
    for (std::size_t chunk = 0; chunk < place->second.slots.slots.size(); ++chunk) {
      const int planned = parts_.description().slots[chunk];
      Require(place->second.slots.slots[chunk] <= planned,
              "a step of {} micro batches needs {} activation slots, {} are planned; resume with a ramp-up from the "
              "first step",
              micro_batches, place->second.slots.slots[chunk], planned);
    }
  }
  return place->second;
}

bool StepRecorder::StepsAreAlike() const {
  const RunConfig& config = parts_.config();
  // Experts have other numbers of rows in every step, for which the host waits.
  return config.train.graphs && config.model.dropout == 0 && config.model.attention_dropout == 0 &&
         !config.model.experts.any() && config.layout.offload != Offload::kFull && !config.layout.offload_activations &&
         !dynamic_loss_scale_ && (ledger_ == nullptr || !ledger_->has_on_phase());
}

PipelineRunner::Repeats StepRecorder::Repeated(int micro_batches) {
  using Repeats = PipelineRunner::Repeats;
  // Recordings take memory of their own: many micro batches hide the starts of kernels anyway.
  constexpr int kMostRecorded = 64;
  const ParallelLayout& layout = parts_.config().layout;
  // Messages of the context axis are not recorded.
  if (!StepsAreAlike() || !parts_.comms().tensor().recordable() || layout.context > 1 ||
      ZeroShards(layout.zero).gradients || micro_batches * layout.chunks > kMostRecorded) {
    return Repeats::kNothing;
  }
  return layout.replicas() > 1 ? Repeats::kAllButLast : Repeats::kEverything;
}

}  // namespace trireme
