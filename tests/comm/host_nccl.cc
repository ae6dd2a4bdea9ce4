// NCCL's functions for threads whose tensors are in host memory. A test that links this file takes them instead of the
// library's, so that communicators over NCCL run without a GPU. A call is done when it returns; ncclCommAbort ends the
// calls of its group with an error. Streams are ignored.
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

struct HostGroup {
  explicit HostGroup(int members) : size(members), given(static_cast<std::size_t>(members)) {}

  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  int waiting = 0;
  std::int64_t meetings = 0;
  bool aborted = false;
  std::vector<const char*> given;                                         // by each member, to the call at hand
  std::map<std::pair<int, int>, std::deque<std::vector<char>>> messages;  // from, to
};

namespace {

std::size_t BytesOf(ncclDataType_t type) {
  if (type == ncclUint8) {
    return 1;
  }
  if (type == ncclBfloat16) {
    return 2;
  }
  return type == ncclInt32 || type == ncclFloat32 ? 4 : 8;
}

struct BFloat {
  std::uint16_t bits = 0;
  operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

BFloat RoundedToBFloat(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  return {static_cast<std::uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16)};
}

template <typename Stored, typename Sum, typename Round>
void ReduceAs(const HostGroup& group, std::size_t first, std::vector<char>& out, bool largest, const Round& round) {
  for (std::size_t i = 0; i < out.size() / sizeof(Stored); ++i) {
    const auto of = [&](const char* given) {
      return static_cast<Sum>(reinterpret_cast<const Stored*>(given)[first + i]);
    };
    Sum sum = of(group.given.front());
    for (std::size_t member = 1; member < group.given.size(); ++member) {
      const Sum other = of(group.given[member]);
      sum = largest ? std::max(sum, other) : static_cast<Sum>(sum + other);
    }
    reinterpret_cast<Stored*>(out.data())[i] = round(sum);
  }
}

}  // namespace

struct ncclComm {
  std::shared_ptr<HostGroup> group;
  int rank = 0;

  // Returns once all members have come; false when the group was aborted.
  bool Meet() const {
    std::unique_lock lock(group->mutex);
    const std::int64_t meeting = group->meetings;
    if (++group->waiting == group->size) {
      group->waiting = 0;
      ++group->meetings;
      group->changed.notify_all();
    }
    group->changed.wait(lock, [&] { return group->meetings != meeting || group->aborted; });
    return !group->aborted;
  }

  // `out` is made from what all members give before any of them goes on: it may overlap what was given.
  template <typename Make>
  ncclResult_t Exchange(const void* in, void* out, std::size_t bytes, const Make& make) const {
    group->given[static_cast<std::size_t>(rank)] = static_cast<const char*>(in);
    std::vector<char> made(bytes);
    if (!Meet()) {
      return ncclSystemError;
    }
    make(made);
    if (!Meet()) {
      return ncclSystemError;
    }
    std::copy(made.begin(), made.end(), static_cast<char*>(out));
    return ncclSuccess;
  }

  ncclResult_t Reduce(const void* in, void* out, std::pair<std::size_t, std::size_t> first_and_count,
                      ncclDataType_t type, ncclRedOp_t op) const {
    const auto [first, count] = first_and_count;
    return Exchange(in, out, count * BytesOf(type), [&, first = first](std::vector<char>& made) {
      const auto same = [](auto sum) { return sum; };
      if (type == ncclFloat32) {
        return ReduceAs<float, float>(*group, first, made, op == ncclMax, same);
      }
      if (type == ncclBfloat16) {
        return ReduceAs<BFloat, float>(*group, first, made, op == ncclMax, RoundedToBFloat);
      }
      if (type == ncclInt32) {
        return ReduceAs<std::int32_t, std::int32_t>(*group, first, made, op == ncclMax, same);
      }
      if (type == ncclInt64) {
        return ReduceAs<std::int64_t, std::int64_t>(*group, first, made, op == ncclMax, same);
      }
      return ReduceAs<std::uint8_t, std::uint8_t>(*group, first, made, op == ncclMax, same);
    });
  }
};

namespace {

struct HostMessage {
  ncclComm* comm;
  int peer;
  char* memory;
  std::size_t bytes;
  bool sends;
};

// State of the calling thread, between ncclGroupStart and ncclGroupEnd.
thread_local int depth = 0;
thread_local std::vector<HostMessage> grouped;

ncclResult_t MoveMessages(const std::vector<HostMessage>& moved) {
  for (const HostMessage& message : moved) {
    if (message.sends) {
      HostGroup& group = *message.comm->group;
      const std::lock_guard lock(group.mutex);
      group.messages[{message.comm->rank, message.peer}].emplace_back(message.memory, message.memory + message.bytes);
      group.changed.notify_all();
    }
  }
  for (const HostMessage& message : moved) {
    if (message.sends) {
      continue;
    }
    HostGroup& group = *message.comm->group;
    std::unique_lock lock(group.mutex);
    std::deque<std::vector<char>>& sent = group.messages[{message.peer, message.comm->rank}];
    group.changed.wait(lock, [&] { return !sent.empty() || group.aborted; });
    if (group.aborted || sent.front().size() != message.bytes) {
      return ncclSystemError;
    }
    std::copy(sent.front().begin(), sent.front().end(), message.memory);
    sent.pop_front();
  }
  return ncclSuccess;
}

ncclResult_t Move(const HostMessage& message) {
  if (depth == 0) {
    return MoveMessages({message});
  }
  grouped.push_back(message);
  return ncclSuccess;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t /*result*/) { return "the group was aborted"; }
const char* ncclGetLastError(ncclComm_t /*comm*/) { return ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<std::int64_t> last = 0;
  const std::int64_t number = ++last;
  *id = {};
  std::memcpy(id->internal, &number, sizeof(number));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* /*config*/) {
  static std::mutex mutex;
  static std::map<std::int64_t, std::weak_ptr<HostGroup>> groups;
  std::int64_t number = 0;
  std::memcpy(&number, id.internal, sizeof(number));
  std::shared_ptr<HostGroup> group;
  {
    const std::lock_guard lock(mutex);
    std::weak_ptr<HostGroup>& known = groups[number];
    group = known.expired() ? std::make_shared<HostGroup>(size) : known.lock();
    known = group;
  }
  *comm = new ncclComm{.group = group, .rank = rank};
  return (*comm)->Meet() ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  comm->Meet();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  {
    const std::lock_guard lock(comm->group->mutex);
    comm->group->aborted = true;
  }
  comm->group->changed.notify_all();
  return ncclSuccess;  // its thread may still be within a call: never freed
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() { return --depth == 0 ? MoveMessages(std::exchange(grouped, {})) : ncclSuccess; }

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t /*stream*/) {
  return Move({comm, peer, static_cast<char*>(const_cast<void*>(from)), count * BytesOf(type), true});
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t /*stream*/) {
  return Move({comm, peer, static_cast<char*>(to), count * BytesOf(type), false});
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t /*stream*/) {
  return comm->Reduce(in, out, {0, count}, type, op);
}

ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t /*stream*/) {
  return comm->Reduce(in, out, {count * static_cast<std::size_t>(comm->rank), count}, type, op);
}

ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t /*stream*/) {
  const std::size_t bytes = count * BytesOf(type);
  return comm->Exchange(in, out, bytes * comm->group->given.size(), [&](std::vector<char>& made) {
    auto to = made.begin();
    for (const char* given : comm->group->given) {
      to = std::copy_n(given, bytes, to);
    }
  });
}

ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t /*stream*/) {
  return comm->Exchange(in, out, count * BytesOf(type), [&](std::vector<char>& made) {
    std::copy_n(comm->group->given[static_cast<std::size_t>(root)], made.size(), made.begin());
  });
}
