// NCCL's own communicator with what every caller needs: types, checked calls, an abort that gets through.
#pragma once

#include <nccl.h>

#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

#include "base/dtype.h"
#include "base/error.h"

namespace trireme {

// An Error for types that NCCL does not know.
ncclDataType_t NcclTypeOf(DType dtype);
void CheckNccl(ncclResult_t status, const char* what);

// NCCL's communicator. Its calls do not block: each is followed by asking for errors until it has been taken in, so
// that an abort from another thread gets through. The mutex is held for single calls only.
class NcclHandle {
 public:
  // Collective over the `size` ranks that have the same id.
  NcclHandle(int size, int rank, const ncclUniqueId& id) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    Run(
        "ncclCommInitRankConfig", [&](ncclComm_t) { return ncclCommInitRankConfig(&handle_, size, id, rank, &config); },
        true);
  }

  ~NcclHandle() {
    if (std::uncaught_exceptions() > 0) {
      Abort();  // the others may never come to a common end
      return;
    }
    const std::lock_guard lock(mutex_);
    if (handle_ != nullptr && ncclCommFinalize(handle_) != ncclInvalidArgument) {
      ncclResult_t state = ncclInProgress;
      while (ncclCommGetAsyncError(handle_, &state) == ncclSuccess && state == ncclInProgress) {
        std::this_thread::sleep_for(kPollInterval);
      }
      ncclCommDestroy(handle_);
    }
  }

  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  // call(handle) starts something; returns when NCCL has put it on its stream.
  template <typename Call>
  void Run(const char* what, const Call& call, bool creates = false) {
    ncclResult_t state = ncclSuccess;
    {
      const std::lock_guard lock(mutex_);
      Require(creates || handle_ != nullptr, "{}: the NCCL communicator was aborted", what);
      if (!creates) {
        CheckNccl(ncclCommGetAsyncError(handle_, &state), what);
        CheckNccl(state, what);
      }
      state = call(handle_);
    }
    while (state == ncclInProgress) {
      std::this_thread::sleep_for(kPollInterval);
      const std::lock_guard lock(mutex_);
      Require(handle_ != nullptr, "{}: the NCCL communicator was aborted", what);
      CheckNccl(ncclCommGetAsyncError(handle_, &state), what);
    }
    CheckNccl(state, what);
  }

  // Any thread. Later calls throw.
  void Abort() {
    const std::lock_guard lock(mutex_);
    if (handle_ != nullptr) {
      ncclCommAbort(handle_);
      handle_ = nullptr;
    }
  }

 private:
  static constexpr auto kPollInterval = std::chrono::microseconds(20);

  std::mutex mutex_;
  ncclComm_t handle_ = nullptr;
};

}  // namespace trireme
