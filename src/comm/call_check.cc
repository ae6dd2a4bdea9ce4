#include "comm/call_check.h"

#include "base/error.h"
#include "base/random.h"

namespace trireme {
namespace {

// Barriers of users have tag 0, so these cannot be taken for one.
constexpr int kSplitTag = -1;
constexpr int kEndTag = -2;

}  // namespace

CollectiveCall SplitCall() { return {.kind = CollectiveKind::kBarrier, .tag = kSplitTag}; }

CollectiveCall EndCall() { return {.kind = CollectiveKind::kBarrier, .tag = kEndTag}; }

std::uint64_t Fingerprint(const CollectiveCall& call) {
  std::uint64_t key = CombineKeys(static_cast<std::uint64_t>(call.kind), static_cast<std::uint64_t>(call.dtype));
  key = CombineKeys(key, static_cast<std::uint64_t>(call.op));
  key = CombineKeys(key, static_cast<std::uint64_t>(call.count));
  key = CombineKeys(key, static_cast<std::uint64_t>(call.peer));
  return CombineKeys(key, static_cast<std::uint64_t>(call.tag));
}

std::string Describe(const CollectiveCall& call) {
  std::string text = fmt::format("{} of {} {}", Name(call.kind), call.count, Name(call.dtype));
  if (call.kind == CollectiveKind::kBarrier) {
    return call == SplitCall() ? "split" : call == EndCall() ? "the end of its work" : "barrier";
  }
  if (call.kind == CollectiveKind::kAllReduce) {
    text += call.op == ReduceOp::kSum ? " (sum)" : " (max)";
  }
  if (call.peer >= 0) {
    text += fmt::format(" {} member {}", call.kind == CollectiveKind::kSend ? "to" : "from", call.peer);
  }
  return IsMessage(call.kind) ? text + fmt::format(", tag {}", call.tag) : text;
}

std::string MismatchMessage(const std::string& group, const RankCall& one, const RankCall& other) {
  return fmt::format("group '{}': rank {} called {}, but rank {} called {}", group, one.world_rank, Describe(one.call),
                     other.world_rank, Describe(other.call));
}

void CheckMessage(const MessageMismatch& message) {
  Require(message.sent_dtype == message.wanted_dtype && message.sent_count == message.wanted_count,
          "group '{}': rank {} sent {} {} to rank {} with tag {}, which receives {} {}", message.group, message.sender,
          message.sent_count, Name(message.sent_dtype), message.receiver, message.tag, message.wanted_count,
          Name(message.wanted_dtype));
}

}  // namespace trireme
