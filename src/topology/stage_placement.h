// Which pipeline stage holds which virtual stage. Virtual stages are numbered in the order of the model: 0 begins with
// the embedding, the last ends with the head. A stage holds one of them per chunk. A kind of schedule chooses the
// placement (ScheduleKind::placement); no other code computes one of these three numbers from the others.
#pragma once

#include <cstdint>

namespace trireme {

enum class PlacementKind : std::uint8_t {
  kRoundRobin,  // every chunk runs up the stages: the head lies on the last stage
  kVShaped,     // odd chunks run down them: with two chunks embedding and head lie on the first stage
};

struct StagePlacement {
  PlacementKind kind = PlacementKind::kRoundRobin;
  int stages = 1;
  int chunks = 1;

  int virtual_stages() const { return stages * chunks; }
  int VirtualStage(int stage, int chunk) const { return chunk * stages + Mirrored(stage, chunk); }
  int ChunkOf(int virtual_stage) const { return virtual_stage / stages; }
  int StageOf(int virtual_stage) const { return Mirrored(virtual_stage % stages, ChunkOf(virtual_stage)); }
  // The stage that holds the head, and so the loss. The embedding lies on stage 0.
  int HeadStage() const { return StageOf(virtual_stages() - 1); }
  // Whether `neighbour` is a virtual stage of another stage: its tensors come and go as messages.
  bool IsRemote(int virtual_stage, int neighbour) const {
    return neighbour >= 0 && neighbour < virtual_stages() && StageOf(virtual_stage) != StageOf(neighbour);
  }
  // Whether the last stage sends to the first.
  bool GoesRound() const { return kind == PlacementKind::kRoundRobin && chunks > 1; }
  // Whether `neighbour` is a virtual stage of the same stage: its tensors are handed over in place.
  bool IsLocal(int virtual_stage, int neighbour) const {
    return neighbour >= 0 && neighbour < virtual_stages() && StageOf(virtual_stage) == StageOf(neighbour);
  }
  bool operator==(const StagePlacement&) const = default;

 private:
  int Mirrored(int stage, int chunk) const {
    return kind == PlacementKind::kVShaped && chunk % 2 == 1 ? stages - 1 - stage : stage;
  }
};

}  // namespace trireme
