#include "comm/nccl_handle.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

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

NcclHandle::NcclHandle(NcclSession& session, int size, int rank, const ncclUniqueId& id) : session_(session) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  if (session.gpu_is_shared()) {
    // Blocks of several ranks wait for each other: all must find room on one GPU.
    config.minCTAs = 1;
    config.maxCTAs = 1;
  }
  CheckNccl(ncclCommInitRankConfig(&handle_, size, id, rank, &config), "ncclCommInitRankConfig");
  session_.Add(*this);
  if (session_.aborted()) {
    session_.AbortAll();
  }
}

NcclHandle::~NcclHandle() {
  if (std::uncaught_exceptions() > 0 || session_.aborted()) {
    session_.AbortAll();  // the others may never come to a common end, and to free memory waits for them
  } else if (handle_ != nullptr) {
    ncclCommDestroy(handle_);
  }
  session_.Remove(*this);
}

ncclComm_t NcclHandle::Take(std::chrono::milliseconds patience) {
  const std::unique_lock lock(mutex_, patience);
  return std::exchange(handle_, nullptr);
}

void CheckNccl(ncclResult_t status, std::string_view what) {
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
