// Whether a program that was built for a list of CUDA architectures has kernels for a GPU: text alone, no driver is
// asked.
#pragma once

#include <string>

namespace trireme {

// `built_for` is CMAKE_CUDA_ARCHITECTURES with commas, "80-real, 90": machine code and PTX, with -real or -virtual one
// of the two. Machine code runs on its own architecture and on later ones of the generation (8.0 on 8.6), PTX on every
// later one; those of 90a run on 9.0 alone, those of 100f on its generation. `capability` is 90 for 9.0.
bool HasKernelsFor(const std::string& built_for, int capability);

}  // namespace trireme
