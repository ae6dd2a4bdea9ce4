#include "train/pipeline_runner.h"

#include <utility>

namespace trireme {
namespace {

const char* PhaseOf(ActionKind kind) {
  switch (kind) {
    case ActionKind::kReceiveActivation:
    case ActionKind::kReceiveGradient:
      return "receive";
    case ActionKind::kSendActivation:
    case ActionKind::kSendGradient:
      return "send";
    case ActionKind::kForward:
      return "forward";
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
    case ActionKind::kBackwardWeight:
      return "backward";
  }
  return "";
}

}  // namespace

PipelineRunner::PipelineRunner(Communicator& pipeline, std::vector<std::unique_ptr<Stage>> stages,
                               const Buffers& buffers)
    : pipeline_(pipeline), chunks_(std::move(stages)), buffers_(buffers) {}

void PipelineRunner::set_ledger(Ledger* ledger) {
  ledger_ = ledger;
  for (const std::unique_ptr<Stage>& stage : chunks_) {
    stage->set_on_module(ledger == nullptr ? std::function<void()>() : [ledger] { ledger->Alive(); });
  }
}

int PipelineRunner::Tag(int sender_virtual_stage, int micro_batch, bool gradient) const {
  const int virtual_stages = stages() * static_cast<int>(chunks_.size());
  return (micro_batch * virtual_stages + sender_virtual_stage) * 2 + (gradient ? 1 : 0);
}

void PipelineRunner::Run(const Schedule& schedule, const SlotPlan& slots, std::span<const MicroBatch> micro_batches,
                         std::int64_t step) {
  for (const Action& action : schedule.actions[static_cast<std::size_t>(pipeline_.rank())]) {
    const auto chunk = static_cast<std::size_t>(action.chunk);
    const auto micro_batch = static_cast<std::size_t>(action.micro_batch);
    if (ledger_ != nullptr) {
      ledger_->SetPhase(step, PhaseOf(action.kind));
    }
    Execute(action, schedule, slots.slot_of[chunk][micro_batch], micro_batches[micro_batch]);
  }
}

void PipelineRunner::Execute(const Action& action, const Schedule& schedule, int slot, const MicroBatch& micro_batch) {
  Stage& stage = *chunks_[static_cast<std::size_t>(action.chunk)];
  const int here = schedule.VirtualStage(pipeline_.rank(), action.chunk);
  const int before = schedule.StageOf(here + schedule.stages - 1);
  const int after = schedule.StageOf(here + 1);
  switch (action.kind) {
    case ActionKind::kReceiveActivation:
      pipeline_.Receive(stage.Input(slot), before, Tag(here - 1, action.micro_batch, false));
      break;
    case ActionKind::kForward:
      stage.Forward(micro_batch, slot, buffers_.output);
      break;
    case ActionKind::kSendActivation:
      pipeline_.Send(buffers_.output, after, Tag(here, action.micro_batch, false));
      break;
    case ActionKind::kReceiveGradient:
      pipeline_.Receive(buffers_.gradient_b, after, Tag(here + 1, action.micro_batch, true));
      break;
    case ActionKind::kBackward:
      gradient_ = stage.Backward(micro_batch, slot, buffers_.gradient_b, buffers_.gradient_a, buffers_.gradient_b);
      break;
    case ActionKind::kBackwardInput:
      gradient_ = stage.BackwardInput(micro_batch, slot, buffers_.gradient_b, buffers_.gradient_a, buffers_.gradient_b);
      break;
    case ActionKind::kBackwardWeight:
      stage.BackwardWeight(micro_batch, slot);
      break;
    case ActionKind::kSendGradient:
      pipeline_.Send(gradient_, before, Tag(here, action.micro_batch, true));
      break;
  }
}

void PipelineRunner::Evaluate(std::span<const MicroBatch> micro_batches) {
  const int last = stages() * static_cast<int>(chunks_.size()) - 1;
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      const int here = static_cast<int>(chunk) * stages() + pipeline_.rank();
      const int number = static_cast<int>(i);
      if (here > 0) {
        pipeline_.Receive(chunks_[chunk]->Input(0), (here - 1) % stages(), Tag(here - 1, number, false));
      }
      chunks_[chunk]->Forward(micro_batches[i], 0, buffers_.output);
      if (here < last) {
        pipeline_.Send(buffers_.output, (here + 1) % stages(), Tag(here, number, false));
      }
    }
  }
}

}  // namespace trireme
