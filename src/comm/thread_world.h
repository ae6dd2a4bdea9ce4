// What thread ranks share: the abort state of the world, and for each group a place to meet and mailboxes. Waiting is
// on condition variables, after a short spin where every thread has a core of its own: many more ranks than cores run
// well.
//
// The world owns its groups until it ends and must outlive every communicator over it. All functions may be called
// from any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/mailbox.h"

namespace trireme {

class ThreadWorld;
class ThreadGroup;

// How a rank waits for others. kSpinFirst looks for some microseconds before it sleeps, which saves the wake-up where
// all threads of the world run at once; where they take turns on the cores it would only delay the others.
enum class WaitStyle { kSleep, kSpinFirst };

// What a member brings to a meeting. The tensors stay valid until the collective has ended for every member.
struct Post {
  CollectiveCall call;
  Tensor in;
  Tensor out;
  Event ready;      // when the member's tensors may be touched; nothing to wait for on a host
  Event done;       // filled in by who moves the data: when they may be touched again
  double time = 0;  // of a paced device: when its part could begin; filled in again: when the collective has ended
  std::shared_ptr<const std::string> bytes = {};  // ShareBytes and CollectBytes only
  std::vector<std::string>* collected = nullptr;  // CollectBytes only: where the root's go
  // Split only; the last two are filled in by the last to arrive.
  int color = 0;
  int key = 0;
  ThreadGroup* child = nullptr;
  int child_member = 0;
};

class ThreadGroup {
 public:
  ThreadGroup(ThreadWorld& world, std::string name, std::vector<int> world_ranks);

  int size() const { return static_cast<int>(world_ranks_.size()); }
  int world_rank(int member) const { return world_ranks_[static_cast<std::size_t>(member)]; }

  // Waits until every member has posted. The last to arrive compares the calls and runs `by_last` (may be empty)
  // before any of them leaves. A mismatch or an exception of by_last becomes an Error on every member. Throws when the
  // world is aborted, or when a member ended without arriving.
  void Meet(int member, const Post& post, const std::function<void()>& by_last);
  // The second barrier of a collective whose members move data between the two. Uninterruptible: peers may still read
  // this rank's buffers, and each of them arrives in bounded time.
  void Finish();
  // Makes the groups of Communicator::Split. The one that `member` is in, and its place there.
  struct Child {
    ThreadGroup* group = nullptr;
    int member = 0;
  };
  Child Split(int member, const std::string& name, int color, int key);
  // Valid between Meet and Finish, or in by_last. After Meet alone a member may read its own post only.
  std::vector<Post>& posts() { return posts_; }

  // Waits for a message to `member`. Throws as Meet does.
  Message Take(int member, const CollectiveCall& call);
  Mailbox& mailbox(int member) { return mailboxes_[static_cast<std::size_t>(member)]; }

  void Wake();

 private:
  // Tells each post of a split which group it is in.
  void AssignChildren(const std::string& name);
  void Release();
  // Returns when `lock` is worth taking again: after generation `known` or after a spin's time.
  void SpinWhile(std::int64_t known, std::unique_lock<std::mutex>& lock);
  std::string Mismatch() const;
  // World rank of a member that ended and has not arrived; -1 for none.
  int EndedMember() const;

  ThreadWorld& world_;
  const std::string name_;
  const std::vector<int> world_ranks_;
  std::vector<Mailbox> mailboxes_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Post> posts_;
  std::vector<bool> present_;
  int arrived_ = 0;
  std::atomic<std::int64_t> generation_ = 0;  // changed under the mutex
  std::string failure_;                       // of the meeting that ended last
};

// Communicator::CollectBytes among threads, as member `member`: post.bytes are its own, post.call.peer is the root.
// `by_last`: as in ThreadGroup::Meet.
std::vector<std::string> CollectAt(ThreadGroup& group, int member, const Post& post,
                                   const std::function<void()>& by_last);

class ThreadWorld {
 public:
  explicit ThreadWorld(int ranks, WaitStyle wait_style = WaitStyle::kSleep);

  WaitStyle wait_style() const { return wait_style_; }

  ThreadGroup& root() { return *groups_.front(); }
  ThreadGroup& AddGroup(const std::string& name, std::vector<int> world_ranks);

  // The first call decides; later ones change nothing.
  void Abort(int rank, const std::string& message);
  // Called by that first Abort, when every rank can learn the reason. Before ranks start.
  void set_on_abort(std::function<void()> hook) { on_abort_ = std::move(hook); }
  bool aborted() const { return aborted_; }
  // Throws "rank R: message" of the first Abort.
  void ThrowIfAborted() const;

  // `rank` has returned and will take part in nothing more.
  void End(int rank);
  bool ended(int rank) const { return ended_[static_cast<std::size_t>(rank)]; }

 private:
  void WakeAll();

  const WaitStyle wait_style_;
  std::function<void()> on_abort_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<ThreadGroup>> groups_;
  std::vector<std::vector<ThreadGroup*>> groups_of_rank_;
  std::string failure_;
  std::atomic<bool> aborted_ = false;
  std::vector<std::atomic<bool>> ended_;
};

}  // namespace trireme
