#include "comm/communicator.h"

#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "comm/call_check.h"

namespace trireme {
namespace {

// Tells the call of ShareBytes, whose length only the root knows, from a broadcast of nothing.
constexpr int kShareTag = 1;
constexpr int kCollectTag = 2;  // likewise of CollectBytes

void RequireSameType(const Communicator& group, CollectiveKind kind, const Tensor& in, const Tensor& out) {
  Require(in.dtype == out.dtype, "{} in group '{}': the input is {}, the output {}", Name(kind), group.name(),
          Name(in.dtype), Name(out.dtype));
}

void RequireParts(const Communicator& group, CollectiveKind kind, const Tensor& part, const Tensor& whole) {
  Require(whole.count() == part.count() * group.size(),
          "{} in group '{}' of {}: {} elements are not {} parts of {} elements", Name(kind), group.name(), group.size(),
          whole.count(), group.size(), part.count());
}

void RequireMember(const Communicator& group, CollectiveKind kind, int member) {
  Require(member >= 0 && member < group.size(), "{} in group '{}': no member {} among {}", Name(kind), group.name(),
          member, group.size());
}

void RequireTag(const Communicator& group, CollectiveKind kind, int tag) {
  Require(tag >= 0, "{} in group '{}': tag {} is negative", Name(kind), group.name(), tag);
}

}  // namespace

std::int64_t Communicator::Begin(const CollectiveCall& call) {
  const std::int64_t sequence = sequence_++;
  if (!IsMessage(call.kind)) {
    digest_ = CombineKeys(digest_, Fingerprint(call));
  }
  if (observer_ != nullptr) {
    observer_->Started(name_, sequence, call);
  }
  return sequence;
}

void Communicator::Run(const CollectiveCall& call, const Tensor& in, const Tensor& out) {
  if (alone() && !IsMessage(call.kind)) {
    CheckAborted();
    if (in.data != out.data && out.count() > 0) {
      device().ops().Copy(out, in);
    }
    return;
  }
  if (recorder_ != nullptr) {
    recorder_->push_back(call);
    return Do(call, in, out);
  }
  // An observer may change while a call runs; both halves of a call go to the one that saw it start.
  CollectiveObserver* const observer = observer_;
  const std::int64_t sequence = Begin(call);
  left_to_device_ = false;
  Do(call, in, out);
  if (size() > 1) {
    traffic_.Add(call.kind, call.bytes());
  }
  if (observer != nullptr && !left_to_device_) {
    observer->Ended(name_, sequence);
  }
}

void Communicator::LeaveToDevice(const CollectiveCall& call, int stream, Event begin, Event end) {
  left_to_device_ = true;
  const std::int64_t sequence = sequence_ - 1;
  if (observer_ != nullptr) {
    observer_->Enqueued(name_, sequence, stream);
  }
  Follow({call, sequence, stream, std::move(begin), std::move(end), observer_,
          observer_ == nullptr ? 0 : observer_->last_ticket()});
}

void Communicator::Replay(std::span<const CollectiveCall> calls, const Event& begin, const Event& end, int stream) {
  for (const CollectiveCall& call : calls) {
    Begin(call);
    traffic_.Add(call.kind, call.bytes());
    LeaveToDevice(call, stream, begin, end);
  }
}

std::unique_ptr<Communicator> Communicator::Split(const std::string& name, int color, int key) {
  Require(color >= 0, "split of group '{}' into '{}': color {} is negative", name_, name, color);
  std::unique_ptr<Communicator> child = DoSplit(name, color, key);
  child->observer_ = observer_;
  return child;
}

void Communicator::AllReduce(const Tensor& in_place, ReduceOp op) {
  Run({.kind = CollectiveKind::kAllReduce, .dtype = in_place.dtype, .op = op, .count = in_place.count()}, in_place,
      in_place);
}

void Communicator::AllGather(const Tensor& in, const Tensor& out) {
  const CollectiveCall call = {.kind = CollectiveKind::kAllGather, .dtype = out.dtype, .count = out.count()};
  RequireSameType(*this, call.kind, in, out);
  RequireParts(*this, call.kind, in, out);
  Run(call, in, out);
}

void Communicator::ReduceScatter(const Tensor& in, const Tensor& out) {
  const CollectiveCall call = {.kind = CollectiveKind::kReduceScatter, .dtype = in.dtype, .count = in.count()};
  RequireSameType(*this, call.kind, in, out);
  RequireParts(*this, call.kind, out, in);
  Run(call, in, out);
}

void Communicator::AllToAll(const Tensor& in, const Tensor& out) {
  const CollectiveCall call = {.kind = CollectiveKind::kAllToAll, .dtype = in.dtype, .count = in.count()};
  RequireSameType(*this, call.kind, in, out);
  Require(in.count() == out.count() && in.count() % size() == 0,
          "all_to_all in group '{}': {} elements in and {} out must be equal and a multiple of {}", name_, in.count(),
          out.count(), size());
  Run(call, in, out);
}

void Communicator::Broadcast(const Tensor& in_place, int root) {
  const CollectiveCall call = {
      .kind = CollectiveKind::kBroadcast, .dtype = in_place.dtype, .count = in_place.count(), .peer = root};
  RequireMember(*this, call.kind, root);
  Run(call, in_place, in_place);
}

void Communicator::Send(const Tensor& message, int to, int tag) {
  const CollectiveCall call = {
      .kind = CollectiveKind::kSend, .dtype = message.dtype, .count = message.count(), .peer = to, .tag = tag};
  RequireMember(*this, call.kind, to);
  RequireTag(*this, call.kind, tag);
  Run(call, message, {});
}

void Communicator::Receive(const Tensor& message, int from, int tag) {
  const CollectiveCall call = {
      .kind = CollectiveKind::kReceive, .dtype = message.dtype, .count = message.count(), .peer = from, .tag = tag};
  RequireMember(*this, call.kind, from);
  RequireTag(*this, call.kind, tag);
  Run(call, {}, message);
}

void Communicator::Barrier() { Run({.kind = CollectiveKind::kBarrier}, {}, {}); }

void Communicator::RunExchange(const CollectiveCall& call, const std::function<void()>& work) {
  CollectiveObserver* const observer = observer_;
  const std::int64_t sequence = Begin(call);
  work();
  if (observer != nullptr) {
    observer->Ended(name_, sequence);
  }
}

std::shared_ptr<const std::string> Communicator::ShareBytes(std::string bytes, int root) {
  const CollectiveCall call = {
      .kind = CollectiveKind::kBroadcast, .dtype = DType::kUInt8, .count = 0, .peer = root, .tag = kShareTag};
  RequireMember(*this, call.kind, root);
  auto shared = std::make_shared<const std::string>(std::move(bytes));
  if (size() == 1) {
    CheckAborted();
    return shared;
  }
  RunExchange(call, [&] { shared = DoShareBytes(call, std::move(shared)); });
  return shared;
}

std::vector<std::string> Communicator::CollectBytes(std::string bytes, int root) {
  const CollectiveCall call = {
      .kind = CollectiveKind::kAllGather, .dtype = DType::kUInt8, .count = 0, .peer = root, .tag = kCollectTag};
  RequireMember(*this, call.kind, root);
  std::vector<std::string> collected;
  if (size() == 1) {
    CheckAborted();
    collected.push_back(std::move(bytes));
    return collected;
  }
  RunExchange(call, [&] { collected = DoCollectBytes(call, std::move(bytes)); });
  return collected;
}

void Communicator::ConnectNeighbours(Neighbours neighbours, int first_stream) {
  if (size() > 1) {
    DoConnectNeighbours(neighbours, first_stream);
  }
}

void Communicator::PrepareAllToAll() {
  if (size() > 1) {
    DoPrepareAllToAll();
  }
}

}  // namespace trireme
