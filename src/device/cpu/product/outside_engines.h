// Engines of libraries from outside. Where a library was not built in (oneDNN) or is not installed (OpenBLAS, BLIS) its
// functions return none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "device/cpu/cpu_level.h"
#include "device/cpu/matmul.h"

namespace trireme {

std::unique_ptr<MatmulEngine> MakeOnednnEngine(int threads);
// "2.6.3"
std::string OnednnVersion();

enum class BlasLibrary : std::uint8_t { kOpenblas, kBlis };
// Epilogues are those of `level`.
std::unique_ptr<MatmulEngine> MakeBlasEngine(BlasLibrary library, CpuLevel level, int threads);
std::string BlasVersion(BlasLibrary library);

}  // namespace trireme
