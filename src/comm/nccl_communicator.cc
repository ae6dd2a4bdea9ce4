#include "comm/nccl_communicator.h"

#include <cuda_runtime.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "comm/staging.h"
#include "device/cuda/cuda_stream.h"

namespace trireme {
namespace {

constexpr auto kPollInterval = std::chrono::microseconds(20);

ncclDataType_t TypeOf(DType dtype) {
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
      break;
  }
  Fail("NCCL has no type for {}", Name(dtype));
}

void CheckNccl(ncclResult_t status, const char* what) {
  Require(status == ncclSuccess, "{}: {} ({})", what, ncclGetErrorString(status), ncclGetLastError(nullptr));
}

// NCCL's communicator. Its calls do not block: each is followed by asking for errors until it has been taken in, so
// that an abort from another thread gets through. The mutex is held for single calls only.
class NcclHandle {
 public:
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

  void Abort() {
    const std::lock_guard lock(mutex_);
    if (handle_ != nullptr) {
      ncclCommAbort(handle_);
      handle_ = nullptr;
    }
  }

 private:
  std::mutex mutex_;
  ncclComm_t handle_ = nullptr;
};

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(std::unique_ptr<Communicator> host, Device& device, bool connect_alone = false)
      : Communicator(host->name()),
        host_(std::move(host)),
        device_(device),
        stream_(static_cast<cudaStream_t>(CudaStreamOf(device))) {
    if (size() == 1 && !connect_alone) {
      return;
    }
    ncclUniqueId id{};
    if (rank() == 0) {
      CheckNccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    }
    host_->Broadcast({&id, DType::kUInt8, {static_cast<std::int64_t>(sizeof(id))}}, 0);
    nccl_ = std::make_unique<NcclHandle>(size(), rank(), id);
  }

  // Every collective over NCCL, whose results for one member are its own values. The public calls would not ask NCCL.
  void ProveAlone(DType dtype) {
    constexpr std::int64_t kCount = 1000;
    const std::int64_t bytes = kCount * SizeOf(dtype);
    std::vector<char> values(static_cast<std::size_t>(bytes), 1);
    auto* const memory = static_cast<char*>(device_.Allocate(2 * bytes));
    const Tensor in{memory, dtype, {kCount}};
    const Tensor out{memory + bytes, dtype, {kCount}};
    const auto expect = [&](const char* what, const Tensor& result) {
      std::vector<char> read(values.size());
      device_.CopyToHost(read.data(), result.data, bytes);
      Require(read == values, "{} of {} over NCCL changed the values of one rank", what, Name(dtype));
      device_.CopyFromHost(out.data, std::vector<char>(values.size()).data(), bytes);
    };
    const auto call = [&](CollectiveKind kind) {
      return CollectiveCall{.kind = kind, .dtype = dtype, .count = kCount};
    };
    device_.CopyFromHost(in.data, values.data(), bytes);
    DoAllReduce(in, ReduceOp::kSum, call(CollectiveKind::kAllReduce));
    expect("all_reduce", in);
    DoAllReduce(in, ReduceOp::kMax, call(CollectiveKind::kAllReduce));
    expect("all_reduce (max)", in);
    DoBroadcast(in, 0, call(CollectiveKind::kBroadcast));
    expect("broadcast", in);
    DoAllGather(in, out, call(CollectiveKind::kAllGather));
    expect("all_gather", out);
    DoReduceScatter(in, out, call(CollectiveKind::kReduceScatter));
    expect("reduce_scatter", out);
    DoAllToAll(in, out, call(CollectiveKind::kAllToAll));
    expect("all_to_all", out);
    device_.Free(memory);
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  void Abort(const std::string& message) override {
    if (nccl_ != nullptr) {
      nccl_->Abort();
    }
    host_->Abort(message);
  }

 protected:
  Device& device() override { return device_; }
  // Asked for one member only, where the host's barrier is nothing but this question.
  void CheckAborted() const override { host_->Barrier(); }

  std::unique_ptr<Communicator> DoSplit(const std::string& name, int color, int key) override {
    return std::make_unique<NcclCommunicator>(host_->Split(name, color, key), device_);
  }

  void DoAllReduce(const Tensor& in_place, ReduceOp op, const CollectiveCall& call) override {
    Start("ncclAllReduce", call, [&](ncclComm_t handle) {
      return ncclAllReduce(in_place.data, in_place.data, Count(in_place), TypeOf(in_place.dtype),
                           op == ReduceOp::kSum ? ncclSum : ncclMax, handle, stream_);
    });
  }

  void DoAllGather(const Tensor& in, const Tensor& out, const CollectiveCall& call) override {
    Start("ncclAllGather", call, [&](ncclComm_t handle) {
      return ncclAllGather(in.data, out.data, Count(in), TypeOf(in.dtype), handle, stream_);
    });
  }

  void DoReduceScatter(const Tensor& in, const Tensor& out, const CollectiveCall& call) override {
    Start("ncclReduceScatter", call, [&](ncclComm_t handle) {
      return ncclReduceScatter(in.data, out.data, Count(out), TypeOf(in.dtype), ncclSum, handle, stream_);
    });
  }

  void DoAllToAll(const Tensor& in, const Tensor& out, const CollectiveCall& call) override {
    const std::int64_t part = in.count() / size();
    Start("all-to-all over NCCL", call, [&](ncclComm_t handle) {
      CheckNccl(ncclGroupStart(), "ncclGroupStart");
      for (int member = 0; member < size(); ++member) {
        const Tensor from = in.Range(member * part, part);
        const Tensor to = out.Range(member * part, part);
        // Within a group an error comes back from ncclGroupEnd as well.
        ncclSend(from.data, Count(from), TypeOf(from.dtype), member, handle, stream_);
        ncclRecv(to.data, Count(to), TypeOf(to.dtype), member, handle, stream_);
      }
      return ncclGroupEnd();
    });
  }

  void DoBroadcast(const Tensor& in_place, int root, const CollectiveCall& call) override {
    Start("ncclBroadcast", call, [&](ncclComm_t handle) {
      return ncclBroadcast(in_place.data, in_place.data, Count(in_place), TypeOf(in_place.dtype), root, handle,
                           stream_);
    });
  }

  void DoSend(const Tensor& message, int to, const CollectiveCall& call) override {
    host_->Send(HostView(device_, message, StagingUse::kRead).tensor(), to, call.tag);
  }

  void DoReceive(const Tensor& message, int from, const CollectiveCall& call) override {
    HostView staged(device_, message, StagingUse::kWrite);
    host_->Receive(staged.tensor(), from, call.tag);
    staged.Store();
  }

  void DoBarrier(const CollectiveCall& call) override { Compare(*host_, call); }

 private:
  static std::size_t Count(const Tensor& tensor) { return static_cast<std::size_t>(tensor.count()); }

  template <typename Call>
  void Start(const char* what, const CollectiveCall& call, const Call& start) {
    Compare(*host_, call);
    if (call.count > 0) {
      nccl_->Run(what, start);
    }
  }

  std::unique_ptr<Communicator> host_;
  Device& device_;
  cudaStream_t stream_;
  std::unique_ptr<NcclHandle> nccl_;  // none for one member
};

// A number that stands for this thread's GPU in its machine.
std::int64_t GpuIdentity() {
  std::array<char, 256> machine{};
  std::array<char, 32> bus{};
  int gpu = 0;
  gethostname(machine.data(), machine.size() - 1);
  Require(cudaGetDevice(&gpu) == cudaSuccess &&
              cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), gpu) == cudaSuccess,
          "CUDA does not say which GPU is in use");
  return static_cast<std::int64_t>(RandomKey(RandomKey(0, machine.data()), bus.data()));
}

}  // namespace

bool NcclIsBuilt() { return true; }

bool NcclCanConnect(Communicator& host) {
  std::int64_t own = GpuIdentity();
  std::vector<std::int64_t> all(static_cast<std::size_t>(host.size()));
  host.AllGather({&own, DType::kInt64, {1}}, {all.data(), DType::kInt64, {host.size()}});
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) == all.end();
}

std::unique_ptr<Communicator> MakeNcclCommunicator(std::unique_ptr<Communicator> host, Device& device) {
  return std::make_unique<NcclCommunicator>(std::move(host), device);
}

void ProveNcclAlone(std::unique_ptr<Communicator> host, Device& device) {
  Require(host->size() == 1, "NCCL is proved with one rank, not {}", host->size());
  NcclCommunicator alone(std::move(host), device, true);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt32, DType::kInt64}) {
    alone.ProveAlone(dtype);
  }
}

}  // namespace trireme
