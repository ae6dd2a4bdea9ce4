// The schedules that kinds.cc registers, each made in the file of its name.
#pragma once

#include "schedule/schedule.h"

namespace trireme {

// More than any run has; within them a schedule and its timeline fit in memory.
inline constexpr int kMaxVirtualStages = 65'536;
inline constexpr int kMaxPasses = 4'000'000;  // virtual stages x micro batches

ScheduleKind GPipe();
ScheduleKind OneForwardOneBackward();
ScheduleKind Interleaved();
ScheduleKind ZeroBubble();
ScheduleKind ZeroBubbleV();

// The bubble of schedules that idle p - 1 of m + p - 1 rounds.
double FillAndDrainShare(int stages, int chunks, double micro_batches);

// For kinds that know one count of chunks per stage only.
void RequireChunks(const char* kind, int chunks, int wanted);

}  // namespace trireme
