// Which versions of cuDNN do attention. A program built with a new one may find an older one when it starts, which
// knows the same functions and refuses the graphs of attention.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// Versions are as cudnnGetVersion says: 91400 for 9.14.0, 8905 for 8.9.5; 0: none is built in.
std::string CudnnVersionText(std::int64_t version);
// Whether attention runs through this cuDNN: 9.14 or later, as src/device/cuda/cuda.cmake asks of the one built with.
bool CudnnDoesAttention(std::int64_t version);
// What a person reads where an older one was found: attention then runs in plain kernels. Empty otherwise.
std::string CudnnNote(std::int64_t version);

}  // namespace trireme
