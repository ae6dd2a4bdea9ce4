// Engines of libraries from outside. Where a library was not built in (oneDNN) or is not installed (OpenBLAS) its
// function returns none.
#pragma once

#include <memory>

#include "device/cpu/cpu_level.h"
#include "device/cpu/matmul.h"

namespace trireme {

std::unique_ptr<MatmulEngine> MakeOnednnEngine(int threads);
// Epilogues are those of `level`.
std::unique_ptr<MatmulEngine> MakeOpenblasEngine(CpuLevel level, int threads);

}  // namespace trireme
