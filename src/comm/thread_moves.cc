#include "comm/thread_moves.h"

#include <algorithm>
#include <vector>

#include "comm/member_reduce.h"

namespace trireme {
namespace {

// On the host a block is summed and handed out while the cache still holds it; a GPU wants one large launch.
constexpr std::int64_t kHostBlock = 16384;

void Copy(Device& device, const Tensor& to, const Tensor& from) {
  if (to.data != from.data && to.count() > 0) {
    device.ops().Copy(to, from);
  }
}

struct Interval {
  std::int64_t first = 0;
  std::int64_t length = 0;
};

// Elements [first, first + length) of every member's tensor become their sum or maximum.
void ReduceEverywhere(Device& device, std::span<const Post> posts, Interval interval) {
  std::vector<const void*> sources(posts.size());
  const std::int64_t block = device.is_host() ? kHostBlock : std::max<std::int64_t>(interval.length, 1);
  for (std::int64_t done = 0; done < interval.length; done += block) {
    const std::int64_t first = interval.first + done;
    const std::int64_t length = std::min(block, interval.length - done);
    std::transform(posts.begin(), posts.end(), sources.begin(),
                   [&](const Post& post) { return post.out.Range(first, length).data; });
    const Tensor sum = posts.front().out.Range(first, length);
    ReduceMembers(device, sum, sources, posts.front().call.op);
    for (const Post& post : posts.subspan(1)) {
      Copy(device, post.out.Range(first, length), sum);
    }
  }
}

void AllReducePart(Device& device, std::span<const Post> posts, int member) {
  const std::int64_t count = posts.front().call.count;
  const auto members = static_cast<std::int64_t>(posts.size());
  const std::int64_t chunk = RoundUp(CeilDiv(count, members), 64);  // whole cache lines: no two members share one
  const std::int64_t first = std::min(count, member * chunk);
  ReduceEverywhere(device, posts, {first, std::min(chunk, count - first)});
}

void AllGatherPart(Device& device, std::span<const Post> posts, int member) {
  const Tensor& out = posts[static_cast<std::size_t>(member)].out;
  const std::int64_t part = out.count() / static_cast<std::int64_t>(posts.size());
  for (std::size_t source = 0; source < posts.size(); ++source) {
    Copy(device, out.Range(static_cast<std::int64_t>(source) * part, part), posts[source].in.Range(0, part));
  }
}

void ReduceScatterPart(Device& device, std::span<const Post> posts, int member) {
  const Tensor& out = posts[static_cast<std::size_t>(member)].out;
  std::vector<const void*> sources(posts.size());
  std::transform(posts.begin(), posts.end(), sources.begin(),
                 [&](const Post& post) { return post.in.Range(member * out.count(), out.count()).data; });
  ReduceMembers(device, out.Range(0, out.count()), sources, ReduceOp::kSum);
}

void AllToAllPart(Device& device, std::span<const Post> posts, int member) {
  const Tensor& out = posts[static_cast<std::size_t>(member)].out;
  const std::int64_t part = out.count() / static_cast<std::int64_t>(posts.size());
  for (std::size_t source = 0; source < posts.size(); ++source) {
    Copy(device, out.Range(static_cast<std::int64_t>(source) * part, part),
         posts[source].in.Range(member * part, part));
  }
}

}  // namespace

void MovePart(Device& device, std::span<const Post> posts, int member) {
  const CollectiveCall& call = posts.front().call;
  if (call.count == 0) {
    return;
  }
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
      return AllReducePart(device, posts, member);
    case CollectiveKind::kAllGather:
      return AllGatherPart(device, posts, member);
    case CollectiveKind::kReduceScatter:
      return ReduceScatterPart(device, posts, member);
    case CollectiveKind::kAllToAll:
      return AllToAllPart(device, posts, member);
    case CollectiveKind::kBroadcast:
      return Copy(device, posts[static_cast<std::size_t>(member)].out.Range(0, call.count),
                  posts[static_cast<std::size_t>(call.peer)].out.Range(0, call.count));
    case CollectiveKind::kSend:
    case CollectiveKind::kReceive:
    case CollectiveKind::kBarrier:
      return;
  }
}

void MoveEverything(Device& device, std::span<const Post> posts) {
  if (posts.front().call.kind == CollectiveKind::kAllReduce) {
    return ReduceEverywhere(device, posts, {0, posts.front().call.count});
  }
  for (std::size_t member = 0; member < posts.size(); ++member) {
    MovePart(device, posts, static_cast<int>(member));
  }
}

}  // namespace trireme
