// Messages between devices over ways on which a sender waits for its receiver and messages come in order, as NCCL's do,
// with the promises of Communicator: a send never waits, and tags do not wait for each other.
//
// A message is copied to a buffer and goes from there in a stream of its own, while the device goes on with its work.
// Its tag, type and count go ahead through host memory. It arrives in a buffer too, before its place is free; from
// there it is copied when it is asked for. A way has two buffers, and takes more device memory only when messages pile
// up. Used by one thread.
//
// A stream that waits for another rank occupies a hardware queue of its context (waiting_streams.h). Thread ranks that
// share a context therefore receive in the compute stream, which waits for the message anyway.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace trireme {

// One direction between this rank and another.
class MessageWay {
 public:
  virtual ~MessageWay() = default;
  // Starts to send or to receive `tensor`, which of the two for the whole life of the way, in the device's stream at
  // hand.
  virtual void Move(const Tensor& tensor) = 0;
};

class DeviceMessages {
 public:
  // Messages are received in streams of their own, or in the compute stream; then Receive is called there alone.
  enum class Receives : std::uint8_t { kAhead, kInOrder };
  // `host` is between the same ranks, with tensors in host memory; both outlive this. Messages go in kMessageStreams
  // streams from `first_stream` on.
  DeviceMessages(Device& device, Communicator& host, int first_stream = kFirstMessageStream,
                 Receives receives = Receives::kAhead);
  // Ways end in the order in which they were added: the end of one may wait for its other side (NCCL's does), so that
  // all ranks must have added theirs in one order.
  ~DeviceMessages();
  DeviceMessages(const DeviceMessages&) = delete;
  DeviceMessages& operator=(const DeviceMessages&) = delete;

  // As many ways as the device has streams for messages, at most one to and one from each rank. Opens its stream.
  void AddWayTo(int rank, std::unique_ptr<MessageWay> way);
  void AddWayFrom(int rank, std::unique_ptr<MessageWay> way);
  bool HasWayTo(int rank) const { return outgoing_.contains(rank); }
  bool HasWayFrom(int rank) const { return incoming_.contains(rank); }

  // Takes the device memory that messages of so many bytes need, where there is a way: not within a step that other
  // ranks' devices wait for.
  void PrepareToSend(std::int64_t bytes, int to);
  void PrepareToReceive(std::int64_t bytes, int from);
  // As Communicator's, along a way that there is. The receiver's work waits for the message on the device, not here.
  void Send(const Tensor& message, int to, int tag);
  void Receive(const Tensor& message, int from, int tag);

  // Device memory that all buffers take.
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Buffer {
    void* memory = nullptr;
    std::int64_t capacity = 0;
    Event free;         // when it may be written again
    bool full = false;  // received into, and not yet asked for
    std::int64_t last_use = 0;
  };
  struct Outgoing {
    MessageWay* way = nullptr;
    int stream = 0;
    std::deque<Buffer> buffers;
    Event copied;  // when the last message was in its buffer
  };
  struct Arrival {
    DType dtype = DType::kFloat32;
    std::int64_t count = 0;
    Buffer* buffer = nullptr;  // none for an empty message
    Event there;
  };
  struct Incoming {
    MessageWay* way = nullptr;
    int stream = 0;
    std::deque<Buffer> buffers;
    std::map<std::int64_t, std::deque<Arrival>> arrivals;  // by tag
  };

  int NextStream();
  Buffer& Add(std::deque<Buffer>& buffers, std::int64_t bytes);
  void Prepare(std::deque<Buffer>& buffers, std::int64_t bytes);
  Buffer& BufferToSend(Outgoing& out, std::int64_t bytes);
  Buffer& BufferToReceive(Incoming& in, std::int64_t bytes);
  // Starts to receive what comes next from `rank`.
  void AcceptNext(Incoming& in, int rank);

  Device& device_;
  Communicator& host_;
  std::vector<std::unique_ptr<MessageWay>> ways_;
  std::map<int, Outgoing> outgoing_;
  std::map<int, Incoming> incoming_;
  const int first_stream_;
  const Receives receives_;
  int streams_used_ = 0;
  std::int64_t uses_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace trireme
