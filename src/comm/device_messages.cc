#include "comm/device_messages.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "base/error.h"
#include "comm/call_check.h"

namespace trireme {
namespace {

constexpr int kAnnouncementTag = 0;
// One on its way, one being filled or read.
constexpr std::size_t kUsualBuffers = 2;

// What goes ahead of a message: its tag, type and count.
using Announcement = std::array<std::int64_t, 3>;

Tensor TensorOf(Announcement& announcement) {
  return {announcement.data(), DType::kInt64, {static_cast<std::int64_t>(announcement.size())}};
}

}  // namespace

DeviceMessages::DeviceMessages(Device& device, Communicator& host, int first_stream, Receives receives)
    : device_(device), host_(host), first_stream_(first_stream), receives_(receives) {}

DeviceMessages::~DeviceMessages() {
  const auto free = [this](std::deque<Buffer>& buffers) {
    for (const Buffer& buffer : buffers) {
      device_.Free(buffer.memory);
    }
  };
  for (auto& [rank, out] : outgoing_) {
    free(out.buffers);
  }
  for (auto& [rank, in] : incoming_) {
    free(in.buffers);
  }
  for (std::unique_ptr<MessageWay>& way : ways_) {
    way.reset();
  }
}

int DeviceMessages::NextStream() {
  Require(streams_used_ < kMessageStreams, "more than {} ways for messages of one group", kMessageStreams);
  const int stream = first_stream_ + streams_used_++;
  device_.OnStream(stream, nullptr, [] {});  // opens it
  return stream;
}

void DeviceMessages::AddWayTo(int rank, std::unique_ptr<MessageWay> way) {
  outgoing_[rank] = {.way = way.get(), .stream = NextStream(), .buffers = {}, .copied = nullptr};
  ways_.push_back(std::move(way));
}

void DeviceMessages::AddWayFrom(int rank, std::unique_ptr<MessageWay> way) {
  const int stream = receives_ == Receives::kInOrder ? kComputeStream : NextStream();
  incoming_[rank] = {.way = way.get(), .stream = stream, .buffers = {}, .arrivals = {}};
  ways_.push_back(std::move(way));
}

DeviceMessages::Buffer& DeviceMessages::Add(std::deque<Buffer>& buffers, std::int64_t bytes) {
  bytes_ += bytes;
  return buffers.emplace_back(
      Buffer{.memory = device_.Allocate(bytes), .capacity = bytes, .free = {}, .full = false, .last_use = 0});
}

void DeviceMessages::Prepare(std::deque<Buffer>& buffers, std::int64_t bytes) {
  auto fitting =
      std::count_if(buffers.begin(), buffers.end(), [&](const Buffer& buffer) { return buffer.capacity >= bytes; });
  for (; bytes > 0 && static_cast<std::size_t>(fitting) < kUsualBuffers; ++fitting) {
    Add(buffers, bytes);
  }
}

void DeviceMessages::PrepareToSend(std::int64_t bytes, int to) {
  if (const auto out = outgoing_.find(to); out != outgoing_.end()) {
    Prepare(out->second.buffers, bytes);
  }
}

void DeviceMessages::PrepareToReceive(std::int64_t bytes, int from) {
  if (const auto in = incoming_.find(from); in != incoming_.end()) {
    Prepare(in->second.buffers, bytes);
  }
}

DeviceMessages::Buffer& DeviceMessages::BufferToSend(Outgoing& out, std::int64_t bytes) {
  const auto find = [&] {
    return std::find_if(out.buffers.begin(), out.buffers.end(), [&](const Buffer& buffer) {
      return buffer.capacity >= bytes && device_.IsReached(buffer.free);
    });
  };
  auto found = find();
  if (found == out.buffers.end() && out.buffers.size() >= kUsualBuffers) {
    // The host is ahead of the device. It waits until its own device has copied the last message, not until that is
    // received.
    device_.SynchronizeEvent(out.copied);
    found = find();
  }
  return found == out.buffers.end() ? Add(out.buffers, bytes) : *found;
}

void DeviceMessages::Send(const Tensor& message, int to, int tag) {
  Outgoing& out = outgoing_.at(to);
  Announcement announcement = {tag, static_cast<std::int64_t>(message.dtype), message.count()};
  if (message.count() == 0) {
    return host_.Send(TensorOf(announcement), to, kAnnouncementTag);
  }
  Buffer& buffer = BufferToSend(out, message.bytes());
  const Tensor copy{buffer.memory, message.dtype, {message.count()}};
  device_.ops().Copy(copy, message);
  out.copied = device_.RecordEvent();
  host_.Send(TensorOf(announcement), to, kAnnouncementTag);
  buffer.free = device_.OnStream(out.stream, out.copied, [&] { out.way->Move(copy); });
}

DeviceMessages::Buffer& DeviceMessages::BufferToReceive(Incoming& in, std::int64_t bytes) {
  Buffer* longest_free = nullptr;
  std::size_t fitting = 0;
  for (Buffer& buffer : in.buffers) {
    if (buffer.full || buffer.capacity < bytes) {
      continue;
    }
    ++fitting;
    if (longest_free == nullptr || buffer.last_use < longest_free->last_use) {
      longest_free = &buffer;
    }
  }
  // With two the stream may wait, on the device, until the older one has been read.
  return fitting >= kUsualBuffers ? *longest_free : Add(in.buffers, bytes);
}

void DeviceMessages::AcceptNext(Incoming& in, int rank) {
  Announcement announcement{};
  host_.Receive(TensorOf(announcement), rank, kAnnouncementTag);
  Arrival arrival{
      .dtype = static_cast<DType>(announcement[1]), .count = announcement[2], .buffer = nullptr, .there = {}};
  if (arrival.count > 0) {
    Buffer& buffer = BufferToReceive(in, arrival.count * SizeOf(arrival.dtype));
    const Tensor place{buffer.memory, arrival.dtype, {arrival.count}};
    arrival.there = device_.OnStream(in.stream, buffer.free, [&] { in.way->Move(place); });
    buffer.full = true;
    arrival.buffer = &buffer;
  }
  in.arrivals[announcement[0]].push_back(arrival);
}

void DeviceMessages::Receive(const Tensor& message, int from, int tag) {
  assert(receives_ == Receives::kAhead || device_.current_stream() == kComputeStream);
  Incoming& in = incoming_.at(from);
  while (in.arrivals[tag].empty()) {
    AcceptNext(in, from);
  }
  const Arrival arrival = in.arrivals[tag].front();
  in.arrivals[tag].pop_front();
  if (in.arrivals[tag].empty()) {
    in.arrivals.erase(tag);
  }
  CheckMessage({.group = host_.name(),
                .sender = from,
                .receiver = host_.rank(),
                .tag = tag,
                .sent_dtype = arrival.dtype,
                .sent_count = arrival.count,
                .wanted_dtype = message.dtype,
                .wanted_count = message.count()});
  if (arrival.buffer == nullptr) {
    return;
  }
  device_.StreamWait(arrival.there);
  device_.ops().Copy(message, {arrival.buffer->memory, arrival.dtype, message.shape});
  arrival.buffer->free = device_.RecordEvent();
  arrival.buffer->full = false;
  arrival.buffer->last_use = ++uses_;
}

}  // namespace trireme
