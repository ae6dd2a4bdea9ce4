#include "comm/thread_communicator.h"

#include <exception>

#include "comm/call_check.h"
#include "comm/thread_moves.h"

namespace trireme {
namespace {

// Up to here one more meeting costs more than what several threads gain.
constexpr std::int64_t kSmallBytes = 16384;

}  // namespace

ThreadCommunicator::ThreadCommunicator(ThreadWorld& world, ThreadGroup& group, int member, Device& device,
                                       std::string name)
    : Communicator(std::move(name)), world_(world), group_(group), member_(member), device_(device) {}

void ThreadCommunicator::Abort(const std::string& message) { world_.Abort(group_.world_rank(member_), message); }

std::unique_ptr<Communicator> ThreadCommunicator::DoSplit(const std::string& name, int color, int key) {
  const ThreadGroup::Child child = group_.Split(member_, name, color, key);
  return std::make_unique<ThreadCommunicator>(world_, *child.group, child.member, device_, name);
}

void ThreadCommunicator::Exchange(const Post& post) {
  if (!device_.is_host()) {
    return ExchangeOnDevice(post);
  }
  if (post.call.count * SizeOf(post.call.dtype) <= kSmallBytes) {
    group_.Meet(member_, post, [this] { MoveEverything(device_, group_.posts()); });
    return;
  }
  group_.Meet(member_, post, {});
  std::exception_ptr failure;
  try {
    MovePart(device_, group_.posts(), member_);
  } catch (...) {
    failure = std::current_exception();
  }
  group_.Finish();
  if (failure) {
    std::rethrow_exception(failure);
  }
}

// Members meet on the host only to hand each other points of their work: no host thread waits for the GPU.
void ThreadCommunicator::ExchangeOnDevice(Post post) {
  post.ready = device_.RecordEvent();
  group_.Meet(member_, post, [this] {
    for (const Post& member : group_.posts()) {
      device_.StreamWait(member.ready);
    }
    MoveEverything(device_, group_.posts());
    const Event done = device_.RecordEvent();
    for (Post& member : group_.posts()) {
      member.done = done;
    }
  });
  device_.StreamWait(group_.posts()[static_cast<std::size_t>(member_)].done);
}

void ThreadCommunicator::Do(const CollectiveCall& call, const Tensor& in, const Tensor& out) {
  if (call.kind == CollectiveKind::kSend) {
    return PostMessage(call, in);
  }
  if (call.kind == CollectiveKind::kReceive) {
    return TakeMessage(call, out);
  }
  if (call.kind == CollectiveKind::kBarrier) {
    return group_.Meet(member_, {.call = call}, {});
  }
  Exchange({.call = call, .in = in, .out = out});
}

std::shared_ptr<const std::string> ThreadCommunicator::DoShareBytes(const CollectiveCall& call,
                                                                    std::shared_ptr<const std::string> bytes) {
  group_.Meet(member_, {.call = call, .bytes = std::move(bytes)}, [&] {
    std::vector<Post>& posts = group_.posts();
    for (Post& post : posts) {
      post.bytes = posts[static_cast<std::size_t>(call.peer)].bytes;
    }
  });
  return group_.posts()[static_cast<std::size_t>(member_)].bytes;
}

std::vector<std::string> ThreadCommunicator::DoCollectBytes(const CollectiveCall& call, std::string bytes) {
  return CollectAt(group_, member_, {.call = call, .bytes = std::make_shared<const std::string>(std::move(bytes))}, {});
}

void ThreadCommunicator::PostMessage(const CollectiveCall& call, const Tensor& message) {
  world_.ThrowIfAborted();
  Mailbox& mailbox = group_.mailbox(call.peer);
  Message copy = mailbox.NewMessage(message.bytes());
  copy.dtype = message.dtype;
  copy.count = message.count();
  if (message.count() > 0) {
    device_.CopyToHost(copy.data.get(), message.data, message.bytes());
  }
  mailbox.Put(member_, call.tag, std::move(copy));
}

void ThreadCommunicator::TakeMessage(const CollectiveCall& call, const Tensor& message) {
  Message received = group_.Take(member_, call);
  CheckMessage({.group = name(),
                .sender = group_.world_rank(call.peer),
                .receiver = group_.world_rank(member_),
                .tag = call.tag,
                .sent_dtype = received.dtype,
                .sent_count = received.count,
                .wanted_dtype = message.dtype,
                .wanted_count = message.count()});
  if (message.count() > 0) {
    device_.CopyFromHost(message.data, received.data.get(), message.bytes());
  }
  group_.mailbox(member_).GiveBack(std::move(received));
}

}  // namespace trireme
