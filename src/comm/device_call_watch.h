// Watches collectives that devices do behind the back of their ranks' threads (NCCL's): a thread polls the events
// around each, tells the ledger what has started and ended, and names the one that stands still. One watch serves the
// ranks of a process, so that it can say which of them has not come. It knows no vendor library.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/communicator.h"

namespace trireme {

// A group as one of its members sees it. `key` is equal for the members of one group and for no other group.
struct WatchedGroup {
  std::string name;
  std::uint64_t key = 0;
  int rank = 0;            // of this member in the world
  std::vector<int> ranks;  // of all members
};

struct WatchedCall {
  CollectiveCall call;
  std::int64_t sequence = 0;
  int stream = 0;
  Event begin;
  Event end;
  CollectiveObserver* observer = nullptr;  // may be missing
  std::uint64_t ticket = 0;
};

struct WatchTimes {
  double poll = 0.02;     // seconds between looks
  double name = 8;        // a collective that makes no progress for so long is named, once
  double give_up = 600;   // and the world is aborted after this
  double when_asked = 5;  // or after this, once the job was asked to end
};

class DeviceCallWatch {
 public:
  struct Hooks {
    std::function<void(const std::string&)> say;                // names a collective that stands still
    std::function<void(int rank, const std::string&)> give_up;  // aborts the world
  };
  // A member's open calls, in the order in which they were enqueued. Made by Join.
  class Channel;

  explicit DeviceCallWatch(Hooks hooks, const WatchTimes& times = {});
  ~DeviceCallWatch();
  DeviceCallWatch(const DeviceCallWatch&) = delete;
  DeviceCallWatch& operator=(const DeviceCallWatch&) = delete;

  // `device` made the events and outlives the channel. Any thread.
  std::shared_ptr<Channel> Join(const WatchedGroup& group, Device& device);
  // The channel's next call. Throws an Error that names both calls when a member of this process has made another one
  // in its place. Before the call is enqueued: what is not alike never ends. Waits for no other thread.
  void Compare(Channel& channel, const CollectiveCall& call);
  // A meeting of the channel's group on the host, from now until this is destroyed. One that is too long is named with
  // its `purpose` (a literal: "compare their calls"), and ended as a call on the device is once the job was asked to
  // end.
  class Meeting {
   public:
    Meeting(Channel& channel, const char* purpose);
    ~Meeting();
    Meeting(const Meeting&) = delete;
    Meeting& operator=(const Meeting&) = delete;

   private:
    Channel& channel_;
  };
  // The call is enqueued. Follows Compare of the same call.
  static void Follow(Channel& channel, WatchedCall call);
  // Whether a member of this process has enqueued fewer of the group's calls than this channel, by `calls` or more.
  static bool IsAhead(const Channel& channel, std::int64_t calls);
  // Leaves aside what the channel still holds; its observers are not told any more when this returns.
  void Leave(Channel& channel);
  // Observers of the channel's open calls go away.
  void DropObservers(Channel& channel);
  // See Communicator::ShortenTimeouts.
  void ShortenTimeouts() { timeouts_are_short_ = true; }

 private:
  void Run();
  void Look(Channel& channel, double now);
  void LookAtMeeting(Channel& channel, double now);
  static void Ask(Channel& channel, double now);
  [[noreturn]] void NameMismatch(Channel& channel, std::int64_t place, const CollectiveCall& call);
  std::string Describe(Channel& channel, double seconds, bool* hopeless);
  std::vector<std::shared_ptr<Channel>> Channels();

  const Hooks hooks_;
  const WatchTimes times_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Channel>> channels_;
  bool ending_ = false;
  std::atomic<bool> timeouts_are_short_ = false;
  bool gave_up_ = false;
  std::thread thread_;
};

}  // namespace trireme
