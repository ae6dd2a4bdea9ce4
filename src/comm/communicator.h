// A group of ranks and what they do together. Three implementations: threads of one process, MPI, NCCL; all behave
// the same and are tested by the same tests. One rank is the ordinary case of size 1: its collectives return at once.
//
// Every member calls the same collectives in the same order. The members' calls are compared (kind, type, count); when
// they differ every member gets an Error that names two ranks and their calls. Threads and MPI compare before data
// moves, NCCL in Verify() at the latest: call it before a result is used for good. When any rank of the world has
// failed or aborted, calls in progress and later ones throw an Error with that rank's message. A Communicator is used
// by one thread. Tensors live in memory of the device given at creation; calls return when the result may be used by
// that device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/accounting.h"
#include "device/device.h"
#include "ops/tensor.h"

namespace trireme {

enum class ReduceOp : std::uint8_t { kSum, kMax };

// Members of a group that send to each other: r and r + 1; in a ring the last and the first too.
enum class Neighbours : std::uint8_t { kLine, kRing };

// One collective as its caller made it: what the ledger records and what members compare before data moves.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kBarrier;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::int64_t count = 0;  // elements of the payload, as Traffic counts it
  int peer = -1;           // root, source or destination
  int tag = 0;
  std::int64_t bytes() const { return count * SizeOf(dtype); }  // of the payload, as Traffic counts it
  bool operator==(const CollectiveCall&) const = default;
};
// "all_reduce of 128 fp32 (sum)"
std::string Describe(const CollectiveCall& call);
// Whether a call is of one sender and one receiver, not of a whole group.
constexpr bool IsMessage(CollectiveKind kind) {
  return kind == CollectiveKind::kSend || kind == CollectiveKind::kReceive;
}

// Told of every collective before it starts and after it ended; called on the rank's thread, must be quick. A call that
// a device does later is not Ended but Enqueued; then any thread tells when the device has started and ended it.
class CollectiveObserver {
 public:
  virtual ~CollectiveObserver() = default;
  virtual void Started(const std::string& group, std::int64_t sequence, const CollectiveCall& call) = 0;
  virtual void Ended(const std::string& group, std::int64_t sequence) = 0;
  // Names the call that Started was told of last, for DeviceStarted and DeviceEnded.
  virtual std::uint64_t last_ticket() const { return 0; }
  virtual void Enqueued(const std::string& group, std::int64_t sequence, int /*stream*/) { Ended(group, sequence); }
  virtual void DeviceStarted(std::uint64_t /*ticket*/) {}
  virtual void DeviceEnded(std::uint64_t /*ticket*/) {}
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // "tensor", "data" …: for messages.
  const std::string& name() const { return name_; }

  // Members with equal color form a new group, ordered by key, then by rank; color >= 0. Collective over this group;
  // over NCCL collective over the world, where every rank splits its own group. The observer and the abort state are
  // inherited. The parent must outlive the child.
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
  // The root's bytes on every member, through host memory: takes no memory of the device, and members need not know how
  // many they are. For what one rank reads and all need. Threads of one process share one copy.
  std::shared_ptr<const std::string> ShareBytes(std::string bytes, int root);
  // Every member's bytes, by member, on the root; nothing on others. As ShareBytes otherwise. For reports of one rank.
  std::vector<std::string> CollectBytes(std::string bytes, int root);
  // Prepares a direct way for messages between neighbours. Collective as Split is. Messages arrive without it too, but
  // may take the way through host memory. They go in kMessageStreams streams from `first_stream` on.
  void ConnectNeighbours(Neighbours neighbours, int first_stream = kFirstMessageStream);
  // Connects all members, which the first all-to-all would do otherwise. Collective as Split is.
  void PrepareAllToAll();

  // Where on the device its collectives are best done when others need not wait for them: overlapped with the rest, but
  // for a group of one, which never waits.
  virtual int stream() const { return size() == 1 ? kComputeStream : kCollectiveStream; }

  // Makes sure that all members made the same calls so far, where calls are not compared one by one, and throws when
  // the world was aborted: the device's results since are none. Collective.
  virtual void Verify() {}
  // Throws when the world was aborted: the only thing that a collective of one member still has to find out.
  virtual void CheckAborted() const {}
  // Whether several ranks' devices are one GPU, on which they wait for each other: see Device::Record.
  virtual bool shares_device() const { return false; }
  // While on, calls and messages go through host memory, so that no kernel waits on the GPU for another rank. For work
  // that may load kernels, which waits until the GPU is idle, where ranks are threads that share a GPU over NCCL;
  // nothing elsewhere. All ranks of the world change it together, with no call or message on its way.
  virtual void set_through_host(bool /*on*/) {}
  // Whether calls may be made while the device records its work (Device::Repeat).
  virtual bool recordable() const { return size() == 1; }
  // While `into` is given, calls are appended to it and not counted: the device records them in a graph
  // (Device::Repeat). nullptr ends that.
  void set_recorder(std::vector<CollectiveCall>* into) { recorder_ = into; }
  // Counts calls that a recording has just started: traffic, ledger, comparison. `begin` and `end` are events of the
  // device around the recording, on its `stream`.
  void Replay(std::span<const CollectiveCall> calls, const Event& begin, const Event& end, int stream);
  // Bytes of device memory that this communicator takes for itself, as far as it knows.
  virtual std::int64_t device_bytes() const { return 0; }

  // Makes every rank of the world end with `message`; later calls on any communicator of the world throw. Any thread.
  virtual void Abort(const std::string& message) = 0;
  // Ends what this rank's device waits for, so that its memory can be freed; the ranks that take part hang until Abort.
  // For a rank that fails, before its destructors run. Any thread.
  virtual void AbortDevice() {}
  // The job was asked to end: from now on a collective that makes no progress for some seconds aborts the world.
  // Any thread.
  virtual void ShortenTimeouts() {}
  // Whether ShortenTimeouts does anything: collectives run on a device while the rank's thread goes on.
  virtual bool can_shorten_timeouts() const { return false; }

  // What this communicator has moved so far (its own calls, not its children's). Groups of one count nothing.
  const Traffic& traffic() const { return traffic_; }
  // nullptr: no ledger. Must outlive the communicator or be replaced.
  virtual void set_observer(CollectiveObserver* observer) { observer_ = observer; }

 protected:
  explicit Communicator(std::string name) : name_(std::move(name)) {}

  // Whose memory the tensors of this communicator live in.
  virtual Device& device() = 0;
  // Group of one: collectives only check for abort.
  virtual bool alone() const { return size() == 1; }
  virtual void DoConnectNeighbours(Neighbours /*neighbours*/, int /*first_stream*/) {}
  virtual void DoPrepareAllToAll() {}

  virtual std::unique_ptr<Communicator> DoSplit(const std::string& name, int color, int key) = 0;
  // Does one call, whose shapes were checked. Called with more than one member only, but for messages to oneself. `in`
  // is what this member brings, `out` what it gets: the same tensor for all-reduce and broadcast, `in` alone for a
  // send, `out` alone for a receive, neither for a barrier.
  virtual void Do(const CollectiveCall& call, const Tensor& in, const Tensor& out) = 0;
  // ShareBytes among more than one member; `bytes` are the root's.
  virtual std::shared_ptr<const std::string> DoShareBytes(const CollectiveCall& call,
                                                          std::shared_ptr<const std::string> bytes) = 0;
  // CollectBytes likewise.
  virtual std::vector<std::string> DoCollectBytes(const CollectiveCall& call, std::string bytes) = 0;
  // For communicators that stand on another one: makes that call on `other`, between the same ranks.
  static void DoOn(Communicator& other, const CollectiveCall& call, const Tensor& in, const Tensor& out) {
    other.Run(call, in, out);
  }

  // For communicators whose calls a device does later. Called within Do: the device does the call on `stream`, between
  // the two events. Follow is told of it, and of what a recording started.
  struct DeviceCall {
    CollectiveCall call;
    std::int64_t sequence = 0;
    int stream = 0;
    Event begin;
    Event end;
    CollectiveObserver* observer = nullptr;
    std::uint64_t ticket = 0;
  };
  virtual void Follow(DeviceCall&& /*call*/) {}
  void LeaveToDevice(const CollectiveCall& call, int stream, Event begin, Event end);
  bool recording() const { return recorder_ != nullptr; }

  // A digest of all calls but messages, in order.
  std::uint64_t digest() const { return digest_; }
  std::int64_t sequence() const { return sequence_; }
  CollectiveObserver* observer() const { return observer_; }

 private:
  // Does a checked call and accounts for it.
  void Run(const CollectiveCall& call, const Tensor& in, const Tensor& out);
  // Does `work`, the exchange of bytes that `call` names, and tells the observer.
  void RunExchange(const CollectiveCall& call, const std::function<void()>& work);
  // Counts a call and tells the observer; returns its number.
  std::int64_t Begin(const CollectiveCall& call);

  std::string name_;
  Traffic traffic_;
  CollectiveObserver* observer_ = nullptr;
  std::vector<CollectiveCall>* recorder_ = nullptr;
  std::int64_t sequence_ = 0;
  std::uint64_t digest_ = 0;
  bool left_to_device_ = false;
};

}  // namespace trireme
