#include "comm/nccl_communicator.h"

#include <cuda_runtime.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "comm/device_messages.h"
#include "comm/nccl_handle.h"
#include "comm/staging.h"
#include "device/cuda/cuda_stream.h"

namespace trireme {
namespace {

ncclUniqueId NewId() {
  ncclUniqueId id{};
  CheckNccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return id;
}

Tensor TensorOf(ncclUniqueId& id) { return {&id, DType::kUInt8, {static_cast<std::int64_t>(sizeof(id))}}; }

// Neighbours in a ring of `size`, each pair once; those that share no rank come one after another.
std::vector<std::pair<int, int>> RingPairs(int size) {
  if (size == 2) {
    return {{0, 1}};
  }
  std::vector<std::pair<int, int>> pairs;
  for (const int first : {0, 1}) {
    for (int rank = first; rank < size; rank += 2) {
      pairs.emplace_back(rank, (rank + 1) % size);
    }
  }
  return pairs;
}

// A communicator of sender and receiver alone.
class NcclWay : public MessageWay {
 public:
  // Collective over the two.
  NcclWay(Device& device, const ncclUniqueId& id, bool sends)
      : device_(device), sends_(sends), handle_(2, sends ? 0 : 1, id) {}

  // Moves one byte: NCCL connects two ranks when the first message goes, and waits until both are there.
  void Open() {
    void* const memory = device_.Allocate(1);
    Move({memory, DType::kUInt8, {1}});
    device_.Synchronize();
    device_.Free(memory);
  }

  void Move(const Tensor& tensor) override {
    const auto stream = static_cast<cudaStream_t>(CudaStreamOf(device_));
    const auto count = static_cast<std::size_t>(tensor.count());
    handle_.Run(sends_ ? "ncclSend" : "ncclRecv", [&](ncclComm_t handle) {
      return sends_ ? ncclSend(tensor.data, count, NcclTypeOf(tensor.dtype), 1, handle, stream)
                    : ncclRecv(tensor.data, count, NcclTypeOf(tensor.dtype), 0, handle, stream);
    });
  }

  void Abort() { handle_.Abort(); }

 private:
  Device& device_;
  bool sends_;
  NcclHandle handle_;
};

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(std::unique_ptr<Communicator> host, Device& device, NcclAlone alone)
      : Communicator(host->name()), host_(std::move(host)), device_(device), alone_(alone) {
    if (size() == 1 && alone_ == NcclAlone::kNothing) {
      return;
    }
    ncclUniqueId id = rank() == 0 ? NewId() : ncclUniqueId{};
    host_->Broadcast(TensorOf(id), 0);
    nccl_ = std::make_unique<NcclHandle>(size(), rank(), id);
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  void Abort(const std::string& message) override {
    if (nccl_ != nullptr) {
      nccl_->Abort();
    }
    {
      const std::lock_guard lock(ways_mutex_);
      for (NcclWay* way : ways_) {
        way->Abort();
      }
    }
    host_->Abort(message);
  }

 protected:
  Device& device() override { return device_; }
  bool alone() const override { return nccl_ == nullptr; }
  // Asked for one member only, where the host's barrier is nothing but this question.
  void CheckAborted() const override { host_->Barrier(); }

  std::unique_ptr<Communicator> DoSplit(const std::string& name, int color, int key) override {
    return std::make_unique<NcclCommunicator>(host_->Split(name, color, key), device_, alone_);
  }

  void DoAllReduce(const Tensor& in_place, ReduceOp op, const CollectiveCall& call) override {
    Start("ncclAllReduce", call, [&](ncclComm_t handle) {
      return ncclAllReduce(in_place.data, in_place.data, Count(in_place), NcclTypeOf(in_place.dtype),
                           op == ReduceOp::kSum ? ncclSum : ncclMax, handle, Stream());
    });
  }

  void DoAllGather(const Tensor& in, const Tensor& out, const CollectiveCall& call) override {
    Start("ncclAllGather", call, [&](ncclComm_t handle) {
      return ncclAllGather(in.data, out.data, Count(in), NcclTypeOf(in.dtype), handle, Stream());
    });
  }

  void DoReduceScatter(const Tensor& in, const Tensor& out, const CollectiveCall& call) override {
    Start("ncclReduceScatter", call, [&](ncclComm_t handle) {
      return ncclReduceScatter(in.data, out.data, Count(out), NcclTypeOf(in.dtype), ncclSum, handle, Stream());
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
        ncclSend(from.data, Count(from), NcclTypeOf(from.dtype), member, handle, Stream());
        ncclRecv(to.data, Count(to), NcclTypeOf(to.dtype), member, handle, Stream());
      }
      return ncclGroupEnd();
    });
  }

  void DoBroadcast(const Tensor& in_place, int root, const CollectiveCall& call) override {
    Start("ncclBroadcast", call, [&](ncclComm_t handle) {
      return ncclBroadcast(in_place.data, in_place.data, Count(in_place), NcclTypeOf(in_place.dtype), root, handle,
                           Stream());
    });
  }

  // Each pair of neighbours has two communicators of its own, one a direction: within one, NCCL would make a message
  // wait for the one before it the other way. Pairs are connected in an order that all ranks share, so that no rank
  // waits in a circle.
  void DoConnectNeighbours() override {
    messages_ = std::make_unique<DeviceMessages>(device_, *host_);
    for (const auto& [one, other] : RingPairs(size())) {
      if (rank() == one || rank() == other) {
        Connect(rank() == one ? other : one, rank() == one);
        Connect(rank() == one ? other : one, rank() == other);
      }
    }
  }

  void DoSend(const Tensor& message, int to, const CollectiveCall& call) override {
    if (messages_ != nullptr && messages_->HasWayTo(to)) {
      return messages_->Send(message, to, call.tag);
    }
    host_->Send(HostView(device_, message, StagingUse::kRead).tensor(), to, call.tag);
  }

  void DoReceive(const Tensor& message, int from, const CollectiveCall& call) override {
    if (messages_ != nullptr && messages_->HasWayFrom(from)) {
      return messages_->Receive(message, from, call.tag);
    }
    HostView staged(device_, message, StagingUse::kWrite);
    host_->Receive(staged.tensor(), from, call.tag);
    staged.Store();
  }

  void DoBarrier(const CollectiveCall& call) override { Compare(*host_, call); }

 private:
  static std::size_t Count(const Tensor& tensor) { return static_cast<std::size_t>(tensor.count()); }

  cudaStream_t Stream() { return static_cast<cudaStream_t>(CudaStreamOf(device_)); }

  void Connect(int other, bool sends) {
    ncclUniqueId id = sends ? NewId() : ncclUniqueId{};
    sends ? host_->Send(TensorOf(id), other, 0) : host_->Receive(TensorOf(id), other, 0);
    auto way = std::make_unique<NcclWay>(device_, id, sends);
    way->Open();
    {
      const std::lock_guard lock(ways_mutex_);
      ways_.push_back(way.get());
    }
    sends ? messages_->AddWayTo(other, std::move(way)) : messages_->AddWayFrom(other, std::move(way));
  }

  template <typename Call>
  void Start(const char* what, const CollectiveCall& call, const Call& start) {
    Compare(*host_, call);
    if (call.count > 0) {
      nccl_->Run(what, start);
    }
  }

  std::unique_ptr<Communicator> host_;
  Device& device_;
  NcclAlone alone_;
  std::unique_ptr<NcclHandle> nccl_;          // none for one member
  std::unique_ptr<DeviceMessages> messages_;  // none before neighbours are connected
  std::mutex ways_mutex_;
  std::vector<NcclWay*> ways_;  // owned by messages_
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

std::unique_ptr<Communicator> MakeNcclCommunicator(std::unique_ptr<Communicator> host, Device& device,
                                                   NcclAlone alone) {
  return std::make_unique<NcclCommunicator>(std::move(host), device, alone);
}

}  // namespace trireme
