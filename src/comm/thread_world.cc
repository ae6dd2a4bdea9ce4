#include "comm/thread_world.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "comm/call_check.h"

namespace trireme {
namespace {

// About what sleeping and being woken costs: longer waits lose at most this again.
constexpr std::chrono::microseconds kSpinTime{50};

}  // namespace

ThreadGroup::ThreadGroup(ThreadWorld& world, std::string name, std::vector<int> world_ranks)
    : world_(world),
      name_(std::move(name)),
      world_ranks_(std::move(world_ranks)),
      mailboxes_(world_ranks_.size()),
      posts_(world_ranks_.size()),
      present_(world_ranks_.size(), false) {}

void ThreadGroup::Meet(int member, const Post& post, const std::function<void()>& by_last) {
  std::unique_lock lock(mutex_);
  world_.ThrowIfAborted();
  posts_[static_cast<std::size_t>(member)] = post;
  present_[static_cast<std::size_t>(member)] = true;
  if (++arrived_ == size()) {
    failure_ = Mismatch();
    if (failure_.empty() && by_last) {
      try {
        by_last();
      } catch (const std::exception& error) {
        failure_ = error.what();
      }
    }
    Release();
  } else {
    const std::int64_t generation = generation_;
    int ended_member = -1;
    SpinWhile(generation, lock);
    changed_.wait(lock,
                  [&] { return generation != generation_ || world_.aborted() || (ended_member = EndedMember()) >= 0; });
    if (generation == generation_) {
      lock.unlock();
      world_.Abort(world_rank(member), fmt::format("group '{}': called {}, but rank {} has ended without it", name_,
                                                   Describe(post.call), ended_member));
      world_.ThrowIfAborted();
    }
  }
  if (!failure_.empty()) {
    throw Error(failure_);
  }
}

void ThreadGroup::Finish() {
  std::unique_lock lock(mutex_);
  if (++arrived_ == size()) {
    Release();
    return;
  }
  const std::int64_t generation = generation_;
  SpinWhile(generation, lock);
  changed_.wait(lock, [this, generation] { return generation != generation_; });
}

ThreadGroup::Child ThreadGroup::Split(int member, const std::string& name, int color, int key) {
  Meet(member, {.call = SplitCall(), .color = color, .key = key}, [&] { AssignChildren(name); });
  const Post& post = posts_[static_cast<std::size_t>(member)];
  return {post.child, post.child_member};
}

void ThreadGroup::AssignChildren(const std::string& name) {
  std::map<int, std::vector<int>> members_of_color;
  for (std::size_t member = 0; member < posts_.size(); ++member) {
    members_of_color[posts_[member].color].push_back(static_cast<int>(member));
  }
  for (auto& [color, members] : members_of_color) {
    std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
      return posts_[static_cast<std::size_t>(a)].key < posts_[static_cast<std::size_t>(b)].key;
    });
    std::vector<int> world_ranks(members.size());
    std::transform(members.begin(), members.end(), world_ranks.begin(), [&](int member) { return world_rank(member); });
    ThreadGroup& child = world_.AddGroup(name, std::move(world_ranks));
    for (std::size_t i = 0; i < members.size(); ++i) {
      Post& post = posts_[static_cast<std::size_t>(members[i])];
      post.child = &child;
      post.child_member = static_cast<int>(i);
    }
  }
}

Message ThreadGroup::Take(int member, const CollectiveCall& call) {
  world_.ThrowIfAborted();
  const int sender = world_rank(call.peer);
  Message message;
  const auto given_up = [this, sender] { return world_.aborted() || world_.ended(sender); };
  if (!mailbox(member).Take(call.peer, call.tag, given_up, &message)) {
    world_.Abort(world_rank(member), fmt::format("group '{}': called {}, but rank {} has ended without sending it",
                                                 name_, Describe(call), sender));
    world_.ThrowIfAborted();
  }
  return message;
}

void ThreadGroup::Wake() {
  { const std::lock_guard lock(mutex_); }  // a member that has just looked must be waiting before it is woken
  changed_.notify_all();
  for (Mailbox& mailbox : mailboxes_) {
    mailbox.Wake();
  }
}

void ThreadGroup::Release() {
  arrived_ = 0;
  std::fill(present_.begin(), present_.end(), false);
  ++generation_;
  changed_.notify_all();
}

void ThreadGroup::SpinWhile(std::int64_t known, std::unique_lock<std::mutex>& lock) {
  if (world_.wait_style() == WaitStyle::kSleep) {
    return;
  }
  lock.unlock();
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  while (generation_ == known && !world_.aborted() && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  lock.lock();
}

std::string ThreadGroup::Mismatch() const {
  const auto other =
      std::find_if(posts_.begin(), posts_.end(), [this](const Post& post) { return post.call != posts_.front().call; });
  if (other == posts_.end()) {
    return "";
  }
  return MismatchMessage(name_, {world_rank(0), posts_.front().call},
                         {world_rank(static_cast<int>(other - posts_.begin())), other->call});
}

int ThreadGroup::EndedMember() const {
  for (std::size_t member = 0; member < present_.size(); ++member) {
    if (!present_[member] && world_.ended(world_ranks_[member])) {
      return world_ranks_[member];
    }
  }
  return -1;
}

std::vector<std::string> CollectAt(ThreadGroup& group, int member, const Post& post,
                                   const std::function<void()>& by_last) {
  std::vector<std::string> collected;
  std::vector<Post>& posts = group.posts();
  Post mine = post;
  mine.collected = &collected;
  group.Meet(member, mine, [&] {
    std::vector<std::string>& all = *posts[static_cast<std::size_t>(post.call.peer)].collected;
    for (Post& each : posts) {
      all.push_back(*each.bytes);
    }
    if (by_last) {
      by_last();
    }
  });
  return collected;
}

ThreadWorld::ThreadWorld(int ranks, WaitStyle wait_style)
    : wait_style_(wait_style),
      groups_of_rank_(static_cast<std::size_t>(ranks)),
      ended_(static_cast<std::size_t>(ranks)) {
  std::vector<int> world_ranks(static_cast<std::size_t>(ranks));
  std::iota(world_ranks.begin(), world_ranks.end(), 0);
  AddGroup("world", std::move(world_ranks));
}

ThreadGroup& ThreadWorld::AddGroup(const std::string& name, std::vector<int> world_ranks) {
  auto group = std::make_unique<ThreadGroup>(*this, name, world_ranks);
  const std::lock_guard lock(mutex_);
  for (const int rank : world_ranks) {
    groups_of_rank_[static_cast<std::size_t>(rank)].push_back(group.get());
  }
  groups_.push_back(std::move(group));
  return *groups_.back();
}

void ThreadWorld::Abort(int rank, const std::string& message) {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) {
      return;
    }
    failure_ = fmt::format("rank {}: {}", rank, message);
    aborted_ = true;
  }
  WakeAll();
  if (on_abort_) {
    on_abort_();
  }
}

void ThreadWorld::ThrowIfAborted() const {
  if (aborted_) {
    const std::lock_guard lock(mutex_);
    throw Error(failure_);
  }
}

void ThreadWorld::End(int rank) {
  ended_[static_cast<std::size_t>(rank)] = true;
  std::vector<ThreadGroup*> groups;
  {
    const std::lock_guard lock(mutex_);
    groups = groups_of_rank_[static_cast<std::size_t>(rank)];
  }
  for (ThreadGroup* group : groups) {
    group->Wake();  // its members may wait for this rank
  }
}

void ThreadWorld::WakeAll() {
  // Members of a group that splits hold its mutex when they add a group, so the two mutexes are not held together here.
  std::vector<ThreadGroup*> groups;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& group : groups_) {
      groups.push_back(group.get());
    }
  }
  for (ThreadGroup* group : groups) {
    group->Wake();
  }
}

}  // namespace trireme
