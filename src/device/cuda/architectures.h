// Which GPUs this program has kernels for: those of the list that it was built with (CMAKE_CUDA_ARCHITECTURES) and
// newer ones for which the driver can translate the newest of the list. Free of fmt, as kernel files are.
#pragma once

#include <string>

namespace trireme {

// Whether the current GPU runs this program's kernels; asks the driver.
bool KernelsRunHere();

// Throws an Error that names the GPU, its compute capability (90: 9.0) and the list, unless `runs`.
void RequireKernels(bool runs, const std::string& gpu, int capability);

}  // namespace trireme
