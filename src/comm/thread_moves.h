// Where the data of a collective between thread ranks goes, once all members have posted. The work is cut by member so
// that no two members' parts touch the same memory: they may run in parallel or one after another, with equal bits.
#pragma once

#include <span>

#include "comm/thread_world.h"

namespace trireme {

// The part of `member`, through `device`, which must be able to reach every member's tensors.
void MovePart(Device& device, std::span<const Post> posts, int member);
// The parts of all members.
void MoveEverything(Device& device, std::span<const Post> posts);

}  // namespace trireme
