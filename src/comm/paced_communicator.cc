#include "comm/paced_communicator.h"

#include <algorithm>
#include <map>

#include "comm/call_check.h"
#include "comm/thread_moves.h"

namespace trireme {
namespace {

// When the last member comes.
double Latest(const std::vector<Post>& posts) {
  return std::max_element(posts.begin(), posts.end(), [](const Post& a, const Post& b) { return a.time < b.time; })
      ->time;
}

}  // namespace

PacedCommunicator::PacedCommunicator(ThreadWorld& world, ThreadGroup& group, int member, const Devices& devices,
                                     std::string name)
    : Communicator(std::move(name)), world_(world), group_(group), member_(member), devices_(devices) {
  std::map<int, int> members_of_node;
  for (int other = 0; other < size(); ++other) {
    ++members_of_node[NodeOf(other)];
  }
  const auto least = std::min_element(members_of_node.begin(), members_of_node.end(),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
  place_ = {.size = size(),
            .per_node = least->second,
            .inner = this->name() == "tensor" || this->name().starts_with("context")};
}

std::unique_ptr<Communicator> PacedCommunicator::DoSplit(const std::string& name, int color, int key) {
  const ThreadGroup::Child child = group_.Split(member_, name, color, key);
  return std::make_unique<PacedCommunicator>(world_, *child.group, child.member, devices_, name);
}

void PacedCommunicator::Do(const CollectiveCall& call, const Tensor& in, const Tensor& out) {
  if (call.kind == CollectiveKind::kSend) {
    return PostMessage(call, in);
  }
  if (call.kind == CollectiveKind::kReceive) {
    return TakeMessage(call, out);
  }
  if (call.kind == CollectiveKind::kBarrier) {
    return MeetAtBarrier(call);
  }
  Exchange({.call = call, .in = in, .out = out});
}

void PacedCommunicator::Exchange(Post post) {
  const PacedCluster& cluster = devices_.paced.cluster();
  PacedClock& clock = devices_.paced.clock();
  post.time = clock.Issue(cluster.issue_collective());
  const bool moves = std::min(post.in.bytes(), post.out.bytes()) <= kPacedValueBytes;
  group_.Meet(member_, post, [&] {
    std::vector<Post>& posts = group_.posts();
    const double begin = Latest(posts);
    const double bytes = static_cast<double>(post.call.count * SizeOf(post.call.dtype));
    const double end = begin + cluster.Collective(post.call.kind, bytes, place_);
    for (Post& member : posts) {
      member.time = end;
    }
    if (moves) {
      MoveEverything(devices_.host, posts);
    }
  });
  clock.StreamWaits(group_.posts()[static_cast<std::size_t>(member_)].time);
}

int PacedCommunicator::RouteTo(int member) const {
  if (member == (member_ + 1) % size()) {
    return first_route_;
  }
  return member == (member_ + size() - 1) % size() ? first_route_ + 1 : kFirstMessageStream + 2;
}

void PacedCommunicator::PostMessage(const CollectiveCall& call, const Tensor& message) {
  const int to = call.peer;
  world_.ThrowIfAborted();
  const PacedCluster& cluster = devices_.paced.cluster();
  PacedClock& clock = devices_.paced.clock();
  const int route = RouteTo(to);
  const double begin = std::max(clock.Issue(cluster.issue_collective()), clock.stream(route));
  const double seconds =
      to == member_ ? 0 : cluster.Message(static_cast<double>(message.bytes()), NodeOf(to) != NodeOf(member_));
  Message sent;
  sent.dtype = message.dtype;
  sent.count = message.count();
  sent.arrival = begin + seconds;
  clock.StreamWaits(route, sent.arrival);
  group_.mailbox(to).Put(member_, call.tag, std::move(sent));
}

void PacedCommunicator::TakeMessage(const CollectiveCall& call, const Tensor& message) {
  const Message received = group_.Take(member_, call);
  CheckMessage({.group = name(),
                .sender = group_.world_rank(call.peer),
                .receiver = group_.world_rank(member_),
                .tag = call.tag,
                .sent_dtype = received.dtype,
                .sent_count = received.count,
                .wanted_dtype = message.dtype,
                .wanted_count = message.count()});
  PacedClock& clock = devices_.paced.clock();
  clock.Issue(devices_.paced.cluster().issue_collective());
  clock.StreamWaits(received.arrival);
}

std::vector<std::string> PacedCommunicator::DoCollectBytes(const CollectiveCall& call, std::string bytes) {
  PacedClock& clock = devices_.paced.clock();
  const Post mine{.call = call, .time = clock.host(), .bytes = std::make_shared<const std::string>(std::move(bytes))};
  std::vector<std::string> collected = CollectAt(group_, member_, mine, [&] {
    std::vector<Post>& posts = group_.posts();
    double moved = 0;
    for (const Post& post : posts) {
      moved += static_cast<double>(post.bytes->size());
    }
    const double end = Latest(posts) + devices_.paced.cluster().Collective(CollectiveKind::kAllGather, moved, place_);
    for (Post& post : posts) {
      post.time = end;
    }
  });
  clock.HostWaits(group_.posts()[static_cast<std::size_t>(member_)].time);
  return collected;
}

std::shared_ptr<const std::string> PacedCommunicator::DoShareBytes(const CollectiveCall& call,
                                                                   std::shared_ptr<const std::string> bytes) {
  PacedClock& clock = devices_.paced.clock();
  group_.Meet(member_, {.call = call, .time = clock.host(), .bytes = std::move(bytes)}, [&] {
    std::vector<Post>& posts = group_.posts();
    const std::shared_ptr<const std::string> shared = posts[static_cast<std::size_t>(call.peer)].bytes;
    const double seconds = devices_.paced.cluster().Collective(call.kind, static_cast<double>(shared->size()), place_);
    const double end = Latest(posts) + seconds;
    for (Post& post : posts) {
      post.bytes = shared;
      post.time = end;
    }
  });
  const Post& post = group_.posts()[static_cast<std::size_t>(member_)];
  clock.HostWaits(post.time);
  return post.bytes;
}

void PacedCommunicator::MeetAtBarrier(const CollectiveCall& call) {
  PacedClock& clock = devices_.paced.clock();
  group_.Meet(member_, {.call = call, .time = clock.host()}, [this] {
    std::vector<Post>& posts = group_.posts();
    const double time = Latest(posts);
    for (Post& member : posts) {
      member.time = time;
    }
  });
  clock.HostWaits(group_.posts()[static_cast<std::size_t>(member_)].time);
}

}  // namespace trireme
