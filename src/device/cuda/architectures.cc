#include "device/cuda/architectures.h"

#include "base/error.h"

namespace trireme {

void RequireKernels(bool runs, const std::string& gpu, int capability) {
  Require(runs,
          "{} has compute capability {}.{}, and this program was built for {}; build it with "
          "-DCMAKE_CUDA_ARCHITECTURES={}, or on this machine without that option",
          gpu, capability / 10, capability % 10, TRIREME_CUDA_ARCHITECTURES, capability);
}

}  // namespace trireme
