// A group of ranks and what they do together. Three implementations: threads of one process, MPI, NCCL; all behave
// the same and are tested by the same tests. One rank is the ordinary case of size 1: its collectives return at once.
//
// Every member calls the same collectives in the same order. Before data moves, the members' calls are compared
// (kind, type, count); when they differ every member gets an Error that names two ranks and their calls. When any rank
// of the world has failed or aborted, calls in progress and later ones throw an Error with that rank's message.
// A Communicator is used by one thread. Tensors live in memory of the device given at creation; calls return when the
// result may be used by that device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/accounting.h"
#include "device/device.h"
#include "device/tensor.h"

namespace trireme {

enum class ReduceOp : std::uint8_t { kSum, kMax };

// One collective as its caller made it: what the ledger records and what members compare before data moves.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kBarrier;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::int64_t count = 0;  // elements of the payload, as Traffic counts it
  int peer = -1;           // root, source or destination
  int tag = 0;
  bool operator==(const CollectiveCall&) const = default;
};
// "all_reduce of 128 fp32 (sum)"
std::string Describe(const CollectiveCall& call);

// Told of every collective before it starts and after it ended; called on the rank's thread, must be quick.
class CollectiveObserver {
 public:
  virtual ~CollectiveObserver() = default;
  virtual void Started(const std::string& group, std::int64_t sequence, const CollectiveCall& call) = 0;
  virtual void Ended(const std::string& group, std::int64_t sequence) = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // "tensor", "data" …: for messages.
  const std::string& name() const { return name_; }

  // Members with equal color form a new group, ordered by key, then by rank; color >= 0. Collective over this group.
  // The observer and the abort state are inherited. The parent must outlive the child.
  std::unique_ptr<Communicator> Split(const std::string& name, int color, int key);

  void AllReduce(const Tensor& in_place, ReduceOp op = ReduceOp::kSum);
  // out = the members' `in` one after another; in may be this rank's part of out.
  void AllGather(const Tensor& in, const Tensor& out);
  // out = this rank's part of the sum of the members' `in`; out may be that part of in.
  void ReduceScatter(const Tensor& in, const Tensor& out);
  // Part r of `in` goes to member r; out = the parts received, in rank order. in and out do not overlap.
  void AllToAll(const Tensor& in, const Tensor& out);
  void Broadcast(const Tensor& in_place, int root);
  // Returns once `message` may be overwritten; never waits for the receiver. Messages of one (sender, receiver, tag)
  // arrive in order; different tags do not wait for each other.
  void Send(const Tensor& message, int to, int tag);
  // Waits for the message; a different type or count than sent is an Error.
  void Receive(const Tensor& message, int from, int tag);
  void Barrier();
  // Prepares a direct way for messages between neighbours: r and r + 1, the last and the first. Collective. Messages
  // arrive without it too, but may take the way through host memory.
  void ConnectNeighbours();

  // Where on the device its collectives are best done when others need not wait for them: overlapped with the rest, but
  // for a group of one, which never waits.
  int stream() const { return size() == 1 ? kComputeStream : kCollectiveStream; }

  // Makes every rank of the world end with `message`; later calls on any communicator of the world throw. Any thread.
  virtual void Abort(const std::string& message) = 0;

  // What this communicator has moved so far (its own calls, not its children's). Groups of one count nothing.
  const Traffic& traffic() const { return traffic_; }
  // nullptr: no ledger. Must outlive the communicator or be replaced.
  void set_observer(CollectiveObserver* observer) { observer_ = observer; }

 protected:
  explicit Communicator(std::string name) : name_(std::move(name)) {}

  // Whose memory the tensors of this communicator live in.
  virtual Device& device() = 0;
  // Whether collectives have nothing to do but to look whether the world was aborted.
  virtual bool alone() const { return size() == 1; }
  virtual void DoConnectNeighbours() {}
  // Throws when the world was aborted: the only thing that a collective of one member still has to find out.
  virtual void CheckAborted() const {}
  // Compares `call` among the members of `group` and moves nothing; for communicators that stand on another one.
  static void Compare(Communicator& group, const CollectiveCall& call) { group.DoBarrier(call); }

  virtual std::unique_ptr<Communicator> DoSplit(const std::string& name, int color, int key) = 0;
  // Called with more than one member only (Send and Receive also to oneself), shapes checked.
  virtual void DoAllReduce(const Tensor& in_place, ReduceOp op, const CollectiveCall& call) = 0;
  virtual void DoAllGather(const Tensor& in, const Tensor& out, const CollectiveCall& call) = 0;
  virtual void DoReduceScatter(const Tensor& in, const Tensor& out, const CollectiveCall& call) = 0;
  virtual void DoAllToAll(const Tensor& in, const Tensor& out, const CollectiveCall& call) = 0;
  virtual void DoBroadcast(const Tensor& in_place, int root, const CollectiveCall& call) = 0;
  virtual void DoSend(const Tensor& message, int to, const CollectiveCall& call) = 0;
  virtual void DoReceive(const Tensor& message, int from, const CollectiveCall& call) = 0;
  virtual void DoBarrier(const CollectiveCall& call) = 0;

 private:
  void Record(const CollectiveCall& call, std::int64_t payload_bytes, const std::function<void()>& action);

  std::string name_;
  Traffic traffic_;
  CollectiveObserver* observer_ = nullptr;
  std::int64_t sequence_ = 0;
};

}  // namespace trireme
