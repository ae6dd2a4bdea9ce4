// A pipeline schedule as data: for each stage the list of its actions, in order. The trainer executes it, the planner
// plays it, the validator checks it, `trireme schedule` draws it. A schedule also says which chunk sits on which stage
// (topology/stage_placement.h).
//
// Invariants of a valid schedule (Validate checks them):
//  1. every (chunk, micro batch) has one forward and either one backward or one input part followed by one weight part;
//  2. a forward of virtual stage v > 0 follows a receive of v - 1's output, sent after that forward; backwards mirror
//  it;
//  3. every send has one matching receive and the other way round, and playing all stages ends (no wait cycle);
//  4. sends never wait for their receiver;
//  5. a stage has one output and one gradient under way: an output is sent before the next forward, a gradient that was
//  received or made is used or sent before the next one is.
// Neighbouring virtual stages on one stage (the turn of a V, or a single stage with several chunks) exchange no
// messages: a forward writes the next chunk's input, and the backward of that chunk leaves its gradient in place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/layout.h"
#include "topology/stage_placement.h"

namespace trireme {

enum class ActionKind : std::uint8_t {
  kForward,            // F
  kBackward,           // B: input and weight part at once
  kBackwardInput,      // I
  kBackwardWeight,     // W
  kSendActivation,     // SF: this virtual stage's output, to the next
  kReceiveActivation,  // RF: the previous virtual stage's output
  kSendGradient,       // SB: gradient of this virtual stage's input, to the previous
  kReceiveGradient,    // RB
};

struct Action {
  ActionKind kind = ActionKind::kForward;
  int chunk = 0;
  int micro_batch = 0;
  bool operator==(const Action&) const = default;
};
// "F0.3": kind, chunk, micro batch.
std::string ToString(const Action& action);
bool IsCompute(ActionKind kind);

struct Schedule {
  std::string name;
  int stages = 1;
  int chunks = 1;
  int micro_batches = 1;
  std::vector<std::vector<Action>> actions;  // by stage
  PlacementKind placement_kind = PlacementKind::kRoundRobin;

  StagePlacement placement() const { return {.kind = placement_kind, .stages = stages, .chunks = chunks}; }
  int virtual_stages() const { return stages * chunks; }
  bool operator==(const Schedule&) const = default;
};

// All that is known of a kind of schedule: what it needs, what it costs, and how to make one. No other code compares
// names of schedules.
struct ScheduleKind {
  std::string name;         // as recipes spell it
  std::string description;  // one line, with its bubble and its activations in flight
  bool splits_backward = false;
  int least_chunks = 1;  // per stage, of what the planner searches
  int most_chunks = 1;
  PlacementKind placement = PlacementKind::kRoundRobin;
  bool rounds_of_micro_batches = false;  // micro batches must be a multiple of the stages
  // Idle time of a stage over all its time, for equal stages whose forward, input part and weight part take one unit.
  double (*bubble_share)(int stages, int chunks, double micro_batches) = nullptr;
  // Micro batches in flight in a chunk of a stage, where a formula gives it (what PlanSlots counts); nullptr: count
  // them in the schedule itself.
  int (*in_flight)(int stages, int stage, int chunk, int micro_batches) = nullptr;
  // Throws an Error naming what would work when the counts do not suit (interleaved: micro batches % stages).
  // Returns compute actions only; MakeSchedule inserts the messages.
  std::vector<std::vector<Action>> (*make)(int stages, int chunks, int micro_batches);
};
// The register (schedule/kinds.cc has one line each).
const std::vector<ScheduleKind>& ScheduleKinds();
// nullptr when no kind has this name: a schedule of a file.
const ScheduleKind* FindScheduleKind(const std::string& name);
// For kinds whose stages may be cut as finely as the model allows.
inline constexpr int kAnyChunks = 65'536;
// Where the virtual stages of a schedule lie: its kind says so, or the file that it names.
StagePlacement PlacementOf(const std::string& schedule, int stages, int chunks);
StagePlacement PlacementOf(const ParallelLayout& layout);

// A registered schedule by name, or one read from a file when `name` ends in ".schedule"; with messages, validated.
// An unknown name is an Error with the nearest match. A file must have been written for these counts.
Schedule MakeSchedule(const std::string& name, int stages, int chunks, int micro_batches);
// The schedule of a file, with whatever counts it was written for.
inline constexpr char kScheduleFileEnding[] = ".schedule";
inline constexpr std::int64_t kLargestSchedule = std::int64_t{256} << 20;  // bytes of its text
Schedule ReadSchedule(const std::string& path);
// Whether backward comes in two parts anywhere in this schedule.
bool SplitsBackward(const Schedule& schedule);

// Inserts a receive right before the compute action that needs it and a send right after the one that makes it.
void AddMessages(Schedule& schedule);

// Throws an Error that names stage, position and action of the first broken invariant.
void Validate(const Schedule& schedule);

// Where the kept tensors of a (chunk, micro batch) live: a chunk has `slots` equal places, each in use from the forward
// to the last backward part; what writes its input before the forward takes it. slot_of[chunk][micro batch].
struct SlotPlan {
  std::vector<int> slots;  // by chunk: the most in flight at once
  std::vector<std::vector<int>> slot_of;
};
SlotPlan PlanSlots(const Schedule& schedule, int stage);

// Seconds of each compute action by virtual stage, and of a message between neighbours.
struct ScheduleCosts {
  std::vector<double> forward;
  std::vector<double> backward_input;
  std::vector<double> backward_weight;  // a whole backward costs both
  double message = 0;
};
ScheduleCosts UnitCosts(const Schedule& schedule);

struct PlayedAction {
  Action action;
  double start = 0;
  double end = 0;
};
struct Timeline {
  std::vector<std::vector<PlayedAction>> stages;  // compute actions only
  double seconds = 0;
  std::vector<double> busy;  // by stage
  // Idle over busy of the stage that is busiest: (p-1)/m for 1F1B with unit costs.
  double Bubble() const;
};
// Plays all stages at once; messages take costs.message and occupy no stage.
Timeline Play(const Schedule& schedule, const ScheduleCosts& costs);

// The text form (docs/reference/schedule_format.md): a header line, then a line a stage.
std::string ToText(const Schedule& schedule);
// `origin` names the text in errors. Checks the form, then Validate()s.
Schedule ParseSchedule(const std::string& text, const std::string& origin);
// A grid for people: one row a stage, one column a unit of time.
std::string DrawGrid(const Schedule& schedule, int width);

}  // namespace trireme
