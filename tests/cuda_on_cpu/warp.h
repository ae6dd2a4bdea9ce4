// Operations of a warp: shuffles, reductions and __syncwarp, which Exchange of the kernels' dialect is.
#pragma once

#include <cstdint>

namespace trireme::cuda_on_cpu {

// No thread of the block may run: reports it where lanes of the warp wait for what does not come. Whether they do.
bool ReportStuckWarp(std::uint32_t warp_index);
// The thread has ended: what its warp's other lanes wait for may be over, or never come.
void LeaveWarp(std::uint32_t thread);

}  // namespace trireme::cuda_on_cpu
