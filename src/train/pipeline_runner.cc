#include "train/pipeline_runner.h"

#include <algorithm>
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

constexpr std::int64_t kActionKinds = 8;

bool AddsWeightGradients(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardWeight;
}

bool AddsInputGradients(ActionKind kind) { return kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput; }

// Whether two actions have a part of their work in common.
bool Overlap(ActionKind one, ActionKind other) {
  return one == other || (AddsWeightGradients(one) && AddsWeightGradients(other)) ||
         (AddsInputGradients(one) && AddsInputGradients(other));
}

}  // namespace

PipelineRunner::PipelineRunner(Communicator& pipeline, Device& device, const StagePlacement& placement,
                               std::vector<std::unique_ptr<Stage>> stages, const Buffers& buffers)
    : pipeline_(pipeline), device_(device), placement_(placement), chunks_(std::move(stages)), buffers_(buffers) {
  pipeline_.ConnectNeighbours(placement_.GoesRound() ? Neighbours::kRing : Neighbours::kLine);
}

void PipelineRunner::set_ledger(Ledger* ledger) {
  ledger_ = ledger;
  for (const std::unique_ptr<Stage>& stage : chunks_) {
    stage->set_on_module(ledger == nullptr ? std::function<void()>() : [ledger] { ledger->Alive(); });
  }
}

int PipelineRunner::Tag(int sender_virtual_stage, int micro_batch, bool gradient) const {
  return (micro_batch * placement_.virtual_stages() + sender_virtual_stage) * 2 + (gradient ? 1 : 0);
}

std::vector<PipelineRunner::Position> PipelineRunner::PositionsOf(std::span<const Action> actions) {
  std::vector<Position> positions(actions.size());
  const auto alike = [&](std::size_t one, std::size_t other) {
    return actions[one].chunk == actions[other].chunk && Overlap(actions[one].kind, actions[other].kind);
  };
  for (std::size_t i = 0; i < actions.size(); ++i) {
    std::size_t other = 0;
    while (other < i && !alike(other, i)) {
      ++other;
    }
    positions[i].first = other == i;
    other = actions.size() - 1;
    while (other > i && !alike(other, i)) {
      --other;
    }
    positions[i].last = other == i;
  }
  return positions;
}

bool PipelineRunner::FirstWriteIsUnique(const Schedule& schedule) const {
  const std::vector<Action>& actions = schedule.actions[static_cast<std::size_t>(pipeline_.rank())];
  const auto any = [&](ActionKind kind) {
    return std::any_of(actions.begin(), actions.end(), [kind](const Action& action) { return action.kind == kind; });
  };
  return !any(ActionKind::kBackward) || !any(ActionKind::kBackwardWeight);
}

void PipelineRunner::Run(const Schedule& schedule, const SlotPlan& slots, std::span<const MicroBatch> micro_batches,
                         std::int64_t step) {
  const std::vector<Action>& actions = schedule.actions[static_cast<std::size_t>(pipeline_.rank())];
  const std::vector<Position> positions = PositionsOf(actions);
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (ledger_ != nullptr) {
      ledger_->SetPhase(step, PhaseOf(actions[i].kind), actions[i].micro_batch);
    }
    Execute({schedule, slots, micro_batches}, actions[i], positions[i]);
  }
}

void PipelineRunner::Execute(const Course& course, const Action& action, const Position& position) {
  const int here = placement_.VirtualStage(pipeline_.rank(), action.chunk);
  const auto chunk = static_cast<std::size_t>(action.chunk);
  switch (action.kind) {
    case ActionKind::kReceiveActivation:
      pipeline_.Receive(
          chunks_[chunk]->Input(course.slots.slot_of[chunk][static_cast<std::size_t>(action.micro_batch)]),
          placement_.StageOf(here - 1), Tag(here - 1, action.micro_batch, false));
      break;
    case ActionKind::kSendActivation:
      pipeline_.Send(buffers_.output, placement_.StageOf(here + 1), Tag(here, action.micro_batch, false));
      break;
    case ActionKind::kReceiveGradient:
      pipeline_.Receive(buffers_.gradient_b, placement_.StageOf(here + 1), Tag(here + 1, action.micro_batch, true));
      break;
    case ActionKind::kSendGradient:
      pipeline_.Send(gradient_, placement_.StageOf(here - 1), Tag(here, action.micro_batch, true));
      break;
    case ActionKind::kForward:
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
    case ActionKind::kBackwardWeight: {
      if (!IsRepeated(action, position)) {
        return Compute(course, action, position);
      }
      const std::int64_t key = KeyOf(course, action);
      const bool meets = tensor_->size() > 1;
      const Event begin = meets ? device_.RecordEvent() : nullptr;
      bool plain = false;
      device_.Repeat(key, [&] {
        plain = !device_.IsRecording();
        ComputeRepeated(course, action, position);
      });
      if (meets && !plain) {
        tensor_->Replay(collectives_[key], begin, device_.RecordEvent(), device_.current_stream());
      }
      if (AddsInputGradients(action.kind)) {
        gradient_ = gradients_[key];
      }
      break;
    }
  }
}

bool PipelineRunner::IsRepeated(const Action& action, const Position& position) const {
  const bool computes =
      AddsWeightGradients(action.kind) || AddsInputGradients(action.kind) || action.kind == ActionKind::kForward;
  return computes && repeats_ != Repeats::kNothing && !(position.last && repeats_ == Repeats::kAllButLast);
}

std::int64_t PipelineRunner::KeyOf(const Course& course, const Action& action) const {
  const auto count = static_cast<std::int64_t>(course.micro_batches.size());
  const std::int64_t kind = count * kActionKinds + static_cast<std::int64_t>(action.kind);
  return (kind * static_cast<std::int64_t>(chunks_.size()) + action.chunk) * count + action.micro_batch;
}

void PipelineRunner::ComputeRepeated(const Course& course, const Action& action, const Position& position) {
  const std::int64_t key = KeyOf(course, action);
  std::vector<CollectiveCall>& calls = collectives_[key];
  calls.clear();
  tensor_->set_recorder(device_.IsRecording() ? &calls : nullptr);
  try {
    Compute(course, action, position);
  } catch (...) {
    tensor_->set_recorder(nullptr);
    throw;
  }
  tensor_->set_recorder(nullptr);
  gradients_[key] = gradient_;  // for when the work is repeated without this call
}

void PipelineRunner::Record(const Schedule& schedule, const SlotPlan& slots,
                            std::span<const MicroBatch> micro_batches) {
  const Course course{schedule, slots, micro_batches};
  const std::vector<Action>& actions = schedule.actions[static_cast<std::size_t>(pipeline_.rank())];
  const std::vector<Position> positions = PositionsOf(actions);
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (IsRepeated(actions[i], positions[i])) {
      device_.Record(KeyOf(course, actions[i]), [&] { ComputeRepeated(course, actions[i], positions[i]); });
    }
  }
}

void PipelineRunner::Compute(const Course& course, const Action& action, const Position& position) {
  const auto chunk = static_cast<std::size_t>(action.chunk);
  const auto number = static_cast<std::size_t>(action.micro_batch);
  Stage& stage = *chunks_[chunk];
  const int slot = course.slots.slot_of[chunk][number];
  MicroBatch micro_batch = course.micro_batches[number];
  micro_batch.first = position.first;
  micro_batch.last = position.last;
  const int here = placement_.VirtualStage(pipeline_.rank(), action.chunk);
  // The backward of a next chunk on this rank has left the gradient in place.
  const Tensor in = placement_.IsLocal(here, here + 1) ? gradient_ : buffers_.gradient_b;
  switch (action.kind) {
    case ActionKind::kForward:
      stage.Forward(micro_batch, slot, OutputOf(here, course.slots, number));
      break;
    case ActionKind::kBackward:
      gradient_ = stage.Backward(micro_batch, slot, in, buffers_.gradient_a, buffers_.gradient_b);
      break;
    case ActionKind::kBackwardInput:
      gradient_ = stage.BackwardInput(micro_batch, slot, in, buffers_.gradient_a, buffers_.gradient_b);
      break;
    case ActionKind::kBackwardWeight:
      stage.BackwardWeight(micro_batch, slot);
      break;
    case ActionKind::kSendActivation:
    case ActionKind::kReceiveActivation:
    case ActionKind::kSendGradient:
    case ActionKind::kReceiveGradient:
      break;
  }
}

Tensor PipelineRunner::OutputOf(int virtual_stage, const SlotPlan& slots, std::size_t micro_batch) const {
  if (!placement_.IsLocal(virtual_stage, virtual_stage + 1)) {
    return buffers_.output;
  }
  const auto next = static_cast<std::size_t>(placement_.ChunkOf(virtual_stage + 1));
  return chunks_[next]->Input(slots.slot_of[next][micro_batch]);
}

void PipelineRunner::Evaluate(std::span<const MicroBatch> micro_batches) {
  const SlotPlan first_slots{.slots = std::vector<int>(chunks_.size(), 1),
                             .slot_of = std::vector<std::vector<int>>(chunks_.size(), {0})};
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    MicroBatch micro_batch = micro_batches[i];
    micro_batch.first = i == 0;  // fp8 copies of weights are made anew: they are those of before the last update
    for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      const int here = placement_.VirtualStage(pipeline_.rank(), static_cast<int>(chunk));
      const int number = static_cast<int>(i);
      if (placement_.IsRemote(here, here - 1)) {
        pipeline_.Receive(chunks_[chunk]->Input(0), placement_.StageOf(here - 1), Tag(here - 1, number, false));
      }
      chunks_[chunk]->Forward(micro_batch, 0, OutputOf(here, first_slots, 0));
      if (placement_.IsRemote(here, here + 1)) {
        pipeline_.Send(buffers_.output, placement_.StageOf(here + 1), Tag(here, number, false));
      }
    }
  }
}

}  // namespace trireme
