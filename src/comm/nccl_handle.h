// NCCL's own communicator with what every caller needs: types, checked calls, an abort that gets through.
#pragma once

#include <nccl.h>

#include <chrono>
#include <mutex>
#include <string_view>

#include "base/dtype.h"
#include "base/error.h"
#include "comm/nccl_session.h"

namespace trireme {

// An Error for types that NCCL does not know.
ncclDataType_t NcclTypeOf(DType dtype);
void CheckNccl(ncclResult_t status, std::string_view what);

// NCCL's communicator. Its calls return when they have put their work on a stream: NCCL's non-blocking ones start a
// thread each, which takes ten times as long. The mutex is held for single calls only.
class NcclHandle {
 public:
  // Collective over the `size` ranks that have the same id. The session outlives this.
  NcclHandle(NcclSession& session, int size, int rank, const ncclUniqueId& id);
  // Waits for the other members, unless an exception is on its way or the session was aborted: then all are aborted.
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  // call(handle) puts something on a stream.
  template <typename Call>
  void Run(std::string_view what, const Call& call) {
    const std::lock_guard lock(mutex_);
    Require(handle_ != nullptr, "{}: the NCCL communicator was aborted", what);
    CheckNccl(call(handle_), what);
  }

  // Gives NCCL's communicator to a caller who aborts it; nullptr when that has happened. Later calls throw. A call in
  // progress gets `patience` to come to its end. Any thread.
  ncclComm_t Take(std::chrono::milliseconds patience);

 private:
  NcclSession& session_;
  std::timed_mutex mutex_;
  ncclComm_t handle_ = nullptr;
};

}  // namespace trireme
