#include "comm/nccl_communicator.h"

#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "comm/call_check.h"
#include "comm/device_messages.h"
#include "comm/nccl_handle.h"
#include "comm/nccl_way.h"
#include "comm/staging.h"
#include "comm/waiting_streams.h"

namespace trireme {
namespace {

ncclUniqueId NewId() {
  ncclUniqueId id{};
  CheckNccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return id;
}

Tensor TensorOf(ncclUniqueId& id) { return {&id, DType::kUInt8, {static_cast<std::int64_t>(sizeof(id))}}; }

// Calls whose digests differ are told one by one from the last of this many.
constexpr std::size_t kRecentCalls = 256;

struct RecentCall {
  std::int64_t sequence = -1;
  CollectiveCall call;
};

// What the communicators of one rank share.
struct NcclRank {
  int number = 0;       // in the world
  Communicator& world;  // all ranks, on the host; outlives all groups
  WaitingStreams streams;
  std::shared_ptr<DeviceCallWatch::Channel> channel;  // of the world, once it is made
};

class NcclCommunicator : public Communicator {
 public:
  // All ranks of the world make their groups at the same time.
  NcclCommunicator(std::unique_ptr<Communicator> host, Device& device, std::shared_ptr<NcclSession> session,
                   NcclAlone alone, std::shared_ptr<NcclRank> self)
      : Communicator(host->name()),
        host_(std::move(host)),
        device_(device),
        session_(std::move(session)),
        alone_(alone),
        self_(std::move(self)) {
    const std::int64_t before = device_.used_bytes();
    MeetWorld();
    if (size() > 1 || alone_ == NcclAlone::kEverything) {
      Open();
    }
    MoveTogether(nccl_ != nullptr ? kConnectBytes : 0, [this](void* memory) { MoveFirstData(memory); });
    sharing_ = session_->gpu_is_shared() ? self_->world.size() : 1;
    bytes_ = nccl_ == nullptr ? 0 : TakenSince(before);
  }

  ~NcclCommunicator() override {
    if (channel_ != nullptr) {
      session_->watch().Leave(*channel_);
    }
    self_->streams.GiveBack(pairs_, size());
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  void Abort(const std::string& message) override {
    host_->Abort(message);  // before it, so that ranks whose collectives end find the reason
    session_->AbortAll();
  }
  void AbortDevice() override { session_->AbortAll(); }
  void ShortenTimeouts() override { session_->watch().ShortenTimeouts(); }
  bool can_shorten_timeouts() const override { return true; }
  bool recordable() const override { return true; }
  // On a shared GPU streams of all ranks want a hardware queue each, and there are 32: nothing is overlapped there.
  int stream() const override { return session_->gpu_is_shared() ? kComputeStream : Communicator::stream(); }
  bool shares_device() const override { return session_->gpu_is_shared(); }
  void set_through_host(bool on) override { through_host_ = on && session_->ranks_share_context(); }

  // Measured when it was made, together with others of the same GPU; and the buffers of messages.
  std::int64_t device_bytes() const override { return bytes_ + (messages_ == nullptr ? 0 : messages_->bytes()); }

  void set_observer(CollectiveObserver* observer) override {
    if (channel_ != nullptr) {
      session_->watch().DropObservers(*channel_);
    }
    Communicator::set_observer(observer);
  }

  // Communicators may be aborted a little before the reason is known.
  void CheckAborted() const override {
    host_->CheckAborted();
    for (int wait = 0; session_->aborted(); ++wait) {
      host_->CheckAborted();
      Require(wait < kReasonMilliseconds, "the communicators of this process were aborted");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void Verify() override {
    CheckAborted();
    if (nccl_ == nullptr) {
      return;
    }
    const DeviceCallWatch::Meeting meeting(*channel_, "compare their calls");
    const auto digests = Gather(static_cast<std::int64_t>(digest()));
    if (std::any_of(digests.begin(), digests.end(), [&](std::int64_t other) { return other != digests.front(); })) {
      NameMismatch();
    }
  }

 protected:
  Device& device() override { return device_; }
  bool alone() const override { return nccl_ == nullptr; }

  std::unique_ptr<Communicator> DoSplit(const std::string& name, int color, int key) override {
    return std::make_unique<NcclCommunicator>(host_->Split(name, color, key), device_, session_, alone_, self_);
  }

  void Follow(DeviceCall&& call) override {
    if (!std::exchange(compared_, false)) {  // a recording started it
      AwaitOthers();
      CompareCall(call.call);
    }
    recent_[static_cast<std::size_t>(call.sequence) % kRecentCalls] = {call.sequence, call.call};
    DeviceCallWatch::Follow(*channel_, {.call = call.call,
                                        .sequence = call.sequence,
                                        .stream = call.stream,
                                        .begin = std::move(call.begin),
                                        .end = std::move(call.end),
                                        .observer = call.observer,
                                        .ticket = call.ticket});
  }

  void Do(const CollectiveCall& call, const Tensor& in, const Tensor& out) override {
    if (call.kind == CollectiveKind::kBarrier) {
      return DoOn(*host_, call, in, out);
    }
    if (call.kind == CollectiveKind::kSend) {
      return SendAlongWay(call, in) ? void() : DoThroughHost(call, in, out);
    }
    if (call.kind == CollectiveKind::kReceive) {
      return ReceiveAlongWay(call, out) ? void() : DoThroughHost(call, in, out);
    }
    return through_host_ ? DoThroughHost(call, in, out) : Start(call, in, out);
  }

  std::shared_ptr<const std::string> DoShareBytes(const CollectiveCall& call,
                                                  std::shared_ptr<const std::string> bytes) override {
    return host_->ShareBytes(*bytes, call.peer);
  }

  std::vector<std::string> DoCollectBytes(const CollectiveCall& call, std::string bytes) override {
    return host_->CollectBytes(std::move(bytes), call.peer);
  }

  // Each pair of neighbours has two communicators of its own, one a direction: within one, NCCL would make a message
  // wait for the one before it the other way. Pairs are connected in an order that all ranks share, so that no rank
  // waits in a circle.
  void DoConnectNeighbours(Neighbours neighbours, int first_stream) override {
    const std::vector<std::pair<int, int>> pairs = PairsOf(neighbours, size());
    Require(messages_ == nullptr, "neighbours of group '{}' are connected already", name());
    if (!self_->streams.Take(static_cast<int>(pairs.size()), size())) {
      if (self_->number == 0) {
        NcclSession::Say(
            fmt::format("messages of group '{}' go through host memory: streams of {} ranks that wait for "
                        "each other would take too many of the GPU's 32 queues",
                        name(), session_->ranks_of_context()));
      }
      return;
    }
    pairs_ = static_cast<int>(pairs.size());
    const std::int64_t before = device_.used_bytes();
    MeetWorld();
    messages_ = std::make_unique<DeviceMessages>(
        device_, *host_, first_stream,
        session_->ranks_share_context() ? DeviceMessages::Receives::kInOrder : DeviceMessages::Receives::kAhead);
    for (const auto& [one, other] : pairs) {
      if (rank() == one || rank() == other) {
        Connect(rank() == one ? other : one, rank() == one);
        Connect(rank() == one ? other : one, rank() == other);
      }
    }
    MoveTogether(1, [this](void* memory) {
      for (NcclWay* way : ways_) {
        way->Move({memory, DType::kUInt8, {1}});
        device_.Synchronize();  // before NCCL connects the next one
      }
    });
    bytes_ += TakenSince(before);
  }

  void DoPrepareAllToAll() override {
    const std::int64_t before = device_.used_bytes();
    MoveTogether(2 * size(), [this](void* memory) {
      const Tensor parts{memory, DType::kUInt8, {2 * size()}};
      nccl_->Run(Name(CollectiveKind::kAllToAll), [&](ncclComm_t handle) {
        return ExchangeParts(parts.Range(0, size()), parts.Range(size(), size()), handle);
      });
    });
    bytes_ += TakenSince(before);
  }

 private:
  static std::size_t Count(const Tensor& tensor) { return static_cast<std::size_t>(tensor.count()); }
  static std::uint64_t Digest(const ncclUniqueId& id) {
    return RandomKey(0, std::string_view(id.internal, sizeof(id.internal)));
  }

  // This rank's part of the device memory that was taken since `before` of it were in use: ranks of one GPU make their
  // communicators at the same time.
  std::int64_t TakenSince(std::int64_t before) const {
    return std::max<std::int64_t>(device_.used_bytes() - before, 0) / sharing_;
  }

  cudaStream_t Stream() { return static_cast<cudaStream_t>(device_.native_stream()); }

  // With members of this process. A difference aborts the world before it is thrown: devices may wait for this call.
  void CompareCall(const CollectiveCall& call) {
    try {
      session_->watch().Compare(*channel_, call);
    } catch (const Error& error) {
      Abort(error.what());
      throw;
    }
  }

  // On a shared GPU kernels of a rank that is ahead wait for the others and fill the GPU's queue of launches; then the
  // driver holds up this rank's thread and, with it, those that it waits for. So a rank waits here before it is far
  // ahead.
  void AwaitOthers() {
    for (int looks = 0; session_->gpu_is_shared() && DeviceCallWatch::IsAhead(*channel_, kMostCallsAhead); ++looks) {
      CheckAborted();
      if (looks < kLooksAtOnce) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
  }

  // `mine` of every member, through host memory.
  std::vector<std::int64_t> Gather(std::int64_t mine) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(size()));
    host_->AllGather({&mine, DType::kInt64, {1}}, {all.data(), DType::kInt64, {size()}});
    return all;
  }

  void Open() {
    ncclUniqueId id = rank() == 0 ? NewId() : ncclUniqueId{};
    host_->Broadcast(TensorOf(id), 0);
    WatchedGroup group{.name = name(), .key = Digest(id), .rank = self_->number, .ranks = {}};
    for (const std::int64_t member : Gather(self_->number)) {
      group.ranks.push_back(static_cast<int>(member));
    }
    ranks_ = group.ranks;
    channel_ = session_->watch().Join(group, device_);
    self_->channel = self_->channel == nullptr ? channel_ : self_->channel;
    const DeviceCallWatch::Meeting meeting(*channel_, "make their communicator");
    nccl_ = std::make_unique<NcclHandle>(*session_, size(), rank(), id);
  }

  // A barrier of all ranks. One that takes long is named.
  void MeetWorld() {
    std::optional<DeviceCallWatch::Meeting> meeting;
    if (self_->channel != nullptr) {
      meeting.emplace(*self_->channel, "make their groups");
    }
    self_->world.Barrier();
  }

  // Runs `move` with `bytes` of cleared memory, unless they are 0, and waits until the device has done it. All ranks of
  // the world do so together: to make a communicator may wait for the whole GPU, which ranks may share, and no rank's
  // collective may wait there meanwhile. Memory is taken before and freed after, as a precaution.
  template <typename Move>
  void MoveTogether(std::int64_t bytes, const Move& move) {
    void* const memory = bytes == 0 ? nullptr : device_.Allocate(bytes);
    if (bytes > 0) {
      device_.ops().Fill({memory, DType::kUInt8, {bytes}}, 0);
      device_.Synchronize();
    }
    MeetWorld();
    if (bytes > 0) {
      const DeviceCallWatch::Meeting meeting(*channel_, "move their first data");
      move(memory);
      device_.Synchronize();
    }
    MeetWorld();
    device_.Free(memory);
  }

  // Part r of `in` to member r. Connects members at the first call.
  ncclResult_t ExchangeParts(const Tensor& in, const Tensor& out, ncclComm_t handle) {
    const std::int64_t part = in.count() / size();
    CheckNccl(ncclGroupStart(), "ncclGroupStart");
    for (int member = 0; member < size(); ++member) {
      const Tensor from = in.Range(member * part, part);
      const Tensor to = out.Range(member * part, part);
      // Within a group an error comes back from ncclGroupEnd as well.
      ncclSend(from.data, Count(from), NcclTypeOf(from.dtype), member, handle, Stream());
      ncclRecv(to.data, Count(to), NcclTypeOf(to.dtype), member, handle, Stream());
    }
    return ncclGroupEnd();
  }

  // NCCL connects two ranks when the first data goes between them, with calls that wait for the whole GPU: not within
  // a step. `memory`: kConnectBytes.
  void MoveFirstData(void* memory) {
    const auto elements = static_cast<std::size_t>(kConnectBytes / 4);
    for (const std::size_t count : {std::size_t{1}, elements}) {
      nccl_->Run("ncclAllReduce", [&](ncclComm_t handle) {
        return ncclAllReduce(memory, memory, count, ncclFloat32, ncclSum, handle, Stream());
      });
    }
    const auto part = elements / static_cast<std::size_t>(size());
    if (part > 0) {
      nccl_->Run("ncclAllGather", [&](ncclComm_t handle) {
        return ncclAllGather(static_cast<float*>(memory) + static_cast<std::size_t>(rank()) * part, memory, part,
                             ncclFloat32, handle, Stream());
      });
    }
  }

  void Connect(int other, bool sends) {
    ncclUniqueId id = sends ? NewId() : ncclUniqueId{};
    sends ? host_->Send(TensorOf(id), other, 0) : host_->Receive(TensorOf(id), other, 0);
    auto way = std::make_unique<NcclWay>(device_, *session_, id, sends);
    ways_.push_back(way.get());
    sends ? messages_->AddWayTo(other, std::move(way)) : messages_->AddWayFrom(other, std::move(way));
  }

  // See set_through_host.
  void DoThroughHost(const CollectiveCall& call, const Tensor& in, const Tensor& out) {
    StageOnHost(device_, in, out, [&](const Tensor& from, const Tensor& to) {
      std::optional<DeviceCallWatch::Meeting> meeting;
      if (!IsMessage(call.kind)) {
        meeting.emplace(*channel_, "exchange data");
      }
      DoOn(*host_, call, from, to);
    });
  }

  // False where the message goes through host memory.
  bool SendAlongWay(const CollectiveCall& call, const Tensor& message) {
    if (messages_ != nullptr && through_host_) {
      messages_->PrepareToSend(message.bytes(), call.peer);
    } else if (messages_ != nullptr && messages_->HasWayTo(call.peer)) {
      messages_->Send(message, call.peer, call.tag);
      return true;
    }
    return false;
  }
  bool ReceiveAlongWay(const CollectiveCall& call, const Tensor& message) {
    if (messages_ != nullptr && through_host_) {
      messages_->PrepareToReceive(message.bytes(), call.peer);
    } else if (messages_ != nullptr && messages_->HasWayFrom(call.peer)) {
      messages_->Receive(message, call.peer, call.tag);
      return true;
    }
    return false;
  }

  void Start(const CollectiveCall& call, const Tensor& in, const Tensor& out) {
    CheckAborted();
    if (recording() || device_.IsRecording()) {
      return Launch(call, in, out);
    }
    AwaitOthers();
    CompareCall(call);
    Event begin = device_.RecordEvent();
    Launch(call, in, out);
    compared_ = true;
    LeaveToDevice(call, device_.current_stream(), std::move(begin), device_.RecordEvent());
  }

  void Launch(const CollectiveCall& call, const Tensor& in, const Tensor& out) {
    if (call.count > 0) {
      nccl_->Run(Name(call.kind), [&](ncclComm_t handle) { return StartNccl(call, in, out, handle); });
    }
  }

  ncclResult_t StartNccl(const CollectiveCall& call, const Tensor& in, const Tensor& out, ncclComm_t handle) {
    const ncclDataType_t type = NcclTypeOf(call.dtype);
    switch (call.kind) {
      case CollectiveKind::kAllReduce:
        return ncclAllReduce(in.data, out.data, Count(in), type, call.op == ReduceOp::kSum ? ncclSum : ncclMax, handle,
                             Stream());
      case CollectiveKind::kAllGather:
        return ncclAllGather(in.data, out.data, Count(in), type, handle, Stream());
      case CollectiveKind::kReduceScatter:
        return ncclReduceScatter(in.data, out.data, Count(out), type, ncclSum, handle, Stream());
      case CollectiveKind::kAllToAll:
        return ExchangeParts(in, out, handle);
      case CollectiveKind::kBroadcast:
        return ncclBroadcast(in.data, out.data, Count(out), type, call.peer, handle, Stream());
      case CollectiveKind::kSend:
      case CollectiveKind::kReceive:
      case CollectiveKind::kBarrier:
        break;
    }
    return ncclInvalidUsage;
  }

  // Digests differ: finds the first call that does among the last ones.
  void NameMismatch() {
    const auto bytes = static_cast<std::int64_t>(sizeof(recent_));
    std::vector<std::array<RecentCall, kRecentCalls>> all(static_cast<std::size_t>(size()));
    host_->AllGather({recent_.data(), DType::kUInt8, {bytes}}, {all.data(), DType::kUInt8, {bytes * size()}});
    const RecentCall* one = nullptr;
    const RecentCall* other = nullptr;
    int who = 0;
    for (std::size_t member = 1; member < all.size(); ++member) {
      for (std::size_t i = 0; i < kRecentCalls; ++i) {
        const RecentCall& a = all.front()[i];
        const RecentCall& b = all[member][i];
        const bool differ = a.sequence != b.sequence || !(a.call == b.call);
        if (differ && (one == nullptr || std::max(a.sequence, b.sequence) < std::max(one->sequence, other->sequence))) {
          one = &a;
          other = &b;
          who = ranks_[member];
        }
      }
    }
    Require(one != nullptr, "group '{}': its ranks made different calls, more than {} calls ago", name(), kRecentCalls);
    if (one->sequence != other->sequence) {
      const bool first_ahead = one->sequence > other->sequence;
      Fail("group '{}': rank {} called {} as number {}, rank {} did not", name(), first_ahead ? ranks_.front() : who,
           Describe((first_ahead ? one : other)->call), std::max(one->sequence, other->sequence),
           first_ahead ? who : ranks_.front());
    }
    Fail("{}", MismatchMessage(name(), {ranks_.front(), one->call}, {who, other->call}));
  }

  static constexpr std::int64_t kConnectBytes = 4 << 20;
  static constexpr int kReasonMilliseconds = 5000;
  // Between two collectives of a group are some dozens of launches; a queue takes 1024.
  static constexpr std::int64_t kMostCallsAhead = 8;
  static constexpr int kLooksAtOnce = 200;

  std::unique_ptr<Communicator> host_;
  Device& device_;
  std::shared_ptr<NcclSession> session_;
  NcclAlone alone_;
  std::shared_ptr<NcclRank> self_;
  int sharing_ = 1;                           // ranks of its GPU
  std::int64_t bytes_ = 0;                    // of device memory that NCCL took
  std::vector<int> ranks_;                    // of the members, in the world
  std::unique_ptr<NcclHandle> nccl_;          // none for one member
  std::unique_ptr<DeviceMessages> messages_;  // none before neighbours are connected
  int pairs_ = 0;                             // of neighbours that are connected
  std::vector<NcclWay*> ways_;                // owned by messages_, in the order in which both ends made them
  std::shared_ptr<DeviceCallWatch::Channel> channel_;
  std::array<RecentCall, kRecentCalls> recent_{};
  bool compared_ = false;  // the call at hand, with members of this process
  bool through_host_ = false;
};

}  // namespace

bool NcclIsBuilt() { return true; }

std::shared_ptr<NcclSession> MakeNcclSession(GpuUse use,
                                             std::function<void(int rank, const std::string& message)> abort_world) {
  // Connections are made when a communicator is, not within a step; recorded buffers would have to be registered by
  // all ranks at once. A user's own choice stands.
  setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  setenv("NCCL_GRAPH_REGISTER", "0", 0);
  return std::make_shared<NcclSession>(use, std::move(abort_world));
}

void AbortNccl(NcclSession& session) { session.AbortAll(); }

std::unique_ptr<Communicator> MakeNcclCommunicator(std::unique_ptr<Communicator> host, Device& device,
                                                   std::shared_ptr<NcclSession> session, NcclAlone alone) {
  auto self = std::make_shared<NcclRank>(NcclRank{.number = host->rank(),
                                                  .world = *host,
                                                  .streams = WaitingStreams(session->ranks_of_context()),
                                                  .channel = nullptr});
  return std::make_unique<NcclCommunicator>(std::move(host), device, std::move(session), alone, std::move(self));
}

}  // namespace trireme
