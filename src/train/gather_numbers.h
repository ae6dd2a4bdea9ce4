// A few numbers of every member of a group, on every member: for checks and reports, not for training data.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "device/device.h"

namespace trireme {

// By member. Collective over the group; every member gives as many.
std::vector<std::vector<std::int64_t>> GatherNumbers(Communicator& group, Device& device,
                                                     const std::vector<std::int64_t>& mine);

}  // namespace trireme
