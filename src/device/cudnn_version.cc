#include "device/cudnn_version.h"

#include <fmt/format.h>

namespace trireme {
namespace {

constexpr std::int64_t kLeastVersion = 91400;

}  // namespace

std::string CudnnVersionText(std::int64_t version) {
  const std::int64_t major_unit = version < 10000 ? 1000 : 10000;  // 10000 since cuDNN 9
  return fmt::format("{}.{}.{}", version / major_unit, version % major_unit / 100, version % 100);
}

bool CudnnDoesAttention(std::int64_t version) { return version >= kLeastVersion; }

std::string CudnnNote(std::int64_t version) {
  return version == 0 || CudnnDoesAttention(version)
             ? ""
             : fmt::format("cuDNN {} is older than {}.{}: attention runs in plain kernels, which are slower",
                           CudnnVersionText(version), kLeastVersion / 10000, kLeastVersion % 10000 / 100);
}

}  // namespace trireme
