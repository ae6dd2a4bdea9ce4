#include "comm/nccl_handle.h"

#include <fmt/format.h>

#include "comm/library_versions.h"

namespace trireme {

ncclDataType_t NcclTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kBFloat16:
      return ncclBfloat16;
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kInt32:
      return ncclInt32;
    case DType::kInt64:
      return ncclInt64;
    case DType::kUInt8:
      return ncclUint8;
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
    case DType::kUInt16:
      break;
  }
  Fail("NCCL has no type for {}", Name(dtype));
}

void CheckNccl(ncclResult_t status, const char* what) {
  Require(status == ncclSuccess, "{}: {} ({})", what, ncclGetErrorString(status), ncclGetLastError(nullptr));
}

std::string NcclVersion() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) {
    return "unknown";
  }
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace trireme
