#include "comm/device_call_watch.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <exception>
#include <utility>

#include "base/error.h"
#include "comm/call_check.h"

namespace trireme {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Calls of a group that are compared as they are enqueued. Members further apart than this meet in Verify.
constexpr std::size_t kBoard = 1024;

// A call and its place among the calls of its group in 64 bits: 32 of the place, 32 of the call's fingerprint. Of 4
// billion wrong calls one passes here; Verify compares all bits.
std::uint64_t MarkOf(std::int64_t place, const CollectiveCall& call) {
  return (static_cast<std::uint64_t>(place) + 1) << 32 | (Fingerprint(call) & 0xFFFFFFFFU);
}

// Whether `one` is of a later place than `other`.
bool IsLater(std::uint64_t one, std::uint64_t other) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(one >> 32) - static_cast<std::uint32_t>(other >> 32)) > 0;
}

std::size_t IndexOf(const WatchedGroup& group) {
  return static_cast<std::size_t>(std::find(group.ranks.begin(), group.ranks.end(), group.rank) - group.ranks.begin());
}

}  // namespace

// What the members of a group in this process have made, without locks: each call looks at it.
struct CallBoard {
  static constexpr std::int64_t kAbsent = -1;

  explicit CallBoard(std::size_t members) : enqueued(members) {
    for (std::atomic<std::int64_t>& calls : enqueued) {
      calls = kAbsent;
    }
  }

  std::array<std::atomic<std::uint64_t>, kBoard> marks{};
  std::vector<std::atomic<std::int64_t>> enqueued;  // calls of each member; kAbsent: it is not of this process
};

class DeviceCallWatch::Channel {
 public:
  Channel(WatchedGroup its_group, Device& its_device, std::shared_ptr<CallBoard> its_board)
      : group(std::move(its_group)),
        device(its_device),
        board(std::move(its_board)),
        enqueued_calls(board->enqueued[IndexOf(group)]) {
    enqueued_calls = 0;
  }

  struct Followed {
    WatchedCall call;
    std::int64_t place = 0;  // among the channel's calls
  };

  const WatchedGroup group;
  Device& device;
  const std::shared_ptr<CallBoard> board;
  std::atomic<std::int64_t>& enqueued_calls;  // of the board
  std::int64_t compared_calls = 0;            // of the rank's thread alone

  // Held by the watch while it queries events and calls observers: a thread that holds it knows that neither is under
  // way. Before `mutex`.
  std::mutex looking;

  std::atomic<double> met_since = 0;     // a meeting on the host; 0: none
  std::atomic<const char*> met_to = "";  // its purpose
  bool meeting_is_named = false;         // of the watch's thread alone

  std::mutex mutex;  // of all below, for some instructions at a time
  std::array<CollectiveCall, kBoard> recent;
  std::deque<Followed> open;
  std::int64_t enqueued = -1;  // number of the last call
  bool started = false;        // the first of `open`
  double since = 0;            // when `open` last became what it is at its front
  bool named = false;          // the first of `open`
};

DeviceCallWatch::DeviceCallWatch(Hooks hooks, const WatchTimes& times)
    : hooks_(std::move(hooks)), times_(times), thread_([this] { Run(); }) {}

DeviceCallWatch::~DeviceCallWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::shared_ptr<DeviceCallWatch::Channel> DeviceCallWatch::Join(const WatchedGroup& group, Device& device) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<CallBoard> board;
  for (const std::shared_ptr<Channel>& other : channels_) {
    board = other->group.key == group.key ? other->board : board;
  }
  channels_.push_back(std::make_shared<Channel>(
      group, device, board == nullptr ? std::make_shared<CallBoard>(group.ranks.size()) : board));
  return channels_.back();
}

void DeviceCallWatch::Compare(Channel& channel, const CollectiveCall& call) {
  const std::int64_t place = channel.compared_calls++;
  const std::size_t slot = static_cast<std::size_t>(place) % kBoard;
  {
    const std::lock_guard lock(channel.mutex);
    channel.recent[slot] = call;
  }
  const std::uint64_t own = MarkOf(place, call);
  std::atomic<std::uint64_t>& mark = channel.board->marks[slot];
  std::uint64_t seen = mark.load();
  while (IsLater(own, seen) && !mark.compare_exchange_weak(seen, own)) {
  }
  if (seen != own && !IsLater(own, seen) && !IsLater(seen, own)) {
    NameMismatch(channel, place, call);
  }
}

void DeviceCallWatch::NameMismatch(Channel& channel, std::int64_t place, const CollectiveCall& call) {
  for (const std::shared_ptr<Channel>& other : Channels()) {
    if (other.get() == &channel || other->group.key != channel.group.key) {
      continue;
    }
    CollectiveCall made;
    {
      const std::lock_guard lock(other->mutex);
      made = other->recent[static_cast<std::size_t>(place) % kBoard];
    }
    if (!(made == call) && MarkOf(place, made) == channel.board->marks[static_cast<std::size_t>(place) % kBoard]) {
      Fail("{}", MismatchMessage(channel.group.name, {other->group.rank, made}, {channel.group.rank, call}));
    }
  }
  Fail("group '{}': rank {} called {}, another rank something else", channel.group.name, channel.group.rank,
       trireme::Describe(call));
}

DeviceCallWatch::Meeting::Meeting(Channel& channel, const char* purpose) : channel_(channel) {
  channel_.met_to = purpose;
  channel_.met_since = Now();
}

DeviceCallWatch::Meeting::~Meeting() { channel_.met_since = 0; }

void DeviceCallWatch::Follow(Channel& channel, WatchedCall call) {
  const std::lock_guard lock(channel.mutex);
  if (channel.open.empty()) {
    channel.since = Now();
    channel.started = channel.named = false;
  }
  channel.enqueued = call.sequence;
  channel.open.push_back({std::move(call), channel.enqueued_calls++});
}

bool DeviceCallWatch::IsAhead(const Channel& channel, std::int64_t calls) {
  const std::int64_t own = channel.enqueued_calls;
  return std::any_of(channel.board->enqueued.begin(), channel.board->enqueued.end(), [&](const auto& others) {
    const std::int64_t known = others;
    return known != CallBoard::kAbsent && known + calls <= own;
  });
}

void DeviceCallWatch::Leave(Channel& channel) {
  DropObservers(channel);
  channel.enqueued_calls = CallBoard::kAbsent;
  const std::lock_guard lock(mutex_);
  std::erase_if(channels_, [&](const std::shared_ptr<Channel>& each) { return each.get() == &channel; });
  const std::lock_guard looking(channel.looking);  // the watch may still hold the channel
  const std::lock_guard channel_lock(channel.mutex);
  channel.open.clear();
}

void DeviceCallWatch::DropObservers(Channel& channel) {
  const std::lock_guard looking(channel.looking);
  const std::lock_guard lock(channel.mutex);
  for (Channel::Followed& followed : channel.open) {
    followed.call.observer = nullptr;
  }
}

std::vector<std::shared_ptr<DeviceCallWatch::Channel>> DeviceCallWatch::Channels() {
  const std::lock_guard lock(mutex_);
  return channels_;
}

void DeviceCallWatch::Run() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, std::chrono::duration<double>(times_.poll), [this] { return ending_; })) {
        return;
      }
    }
    for (const std::shared_ptr<Channel>& channel : Channels()) {
      try {
        Look(*channel, Now());
      } catch (const std::exception&) {
        // The device has failed, which its rank finds out itself: there is nothing left to watch.
        const std::lock_guard lock(channel->mutex);
        channel->open.clear();
      }
    }
  }
}

// Takes out of `open` what the device has ended. Events are asked for while the rank's thread may go on.
void DeviceCallWatch::Ask(Channel& channel, double now) {
  const std::lock_guard looking(channel.looking);
  const auto front_and_back = [&channel](std::array<WatchedCall, 2>& ends) {
    const std::lock_guard lock(channel.mutex);
    if (!channel.open.empty()) {
      ends = {channel.open.front().call, channel.open.back().call};
    }
    return !channel.open.empty();
  };
  std::array<WatchedCall, 2> ends;
  if (!front_and_back(ends)) {
    return;
  }
  const WatchedCall last = ends[1];
  const bool last_ended = channel.device.IsReached(last.end);
  const auto ended = [&](const WatchedCall& call) {
    // What is before the last one in its stream has ended with it.
    return (last_ended && call.stream == last.stream && call.sequence <= last.sequence) ||
           channel.device.IsReached(call.end);
  };
  bool left = true;
  while (left && ended(ends[0])) {
    if (ends[0].observer != nullptr) {
      ends[0].observer->DeviceEnded(ends[0].ticket);
    }
    {
      const std::lock_guard lock(channel.mutex);
      channel.open.pop_front();
      channel.since = now;
      channel.started = channel.named = false;
    }
    left = front_and_back(ends);
  }
  // Only the watch's thread writes `started` of a call that is there.
  if (left && !channel.started && channel.device.IsReached(ends[0].begin)) {
    if (ends[0].observer != nullptr) {
      ends[0].observer->DeviceStarted(ends[0].ticket);
    }
    const std::lock_guard lock(channel.mutex);
    channel.started = true;
  }
}

void DeviceCallWatch::LookAtMeeting(Channel& channel, double now) {
  const double since = channel.met_since;
  const double seconds = since == 0 ? 0 : now - since;
  // Without a request a meeting may take long: a rank reads its weights, or saves.
  const bool over = timeouts_are_short_ && seconds > times_.when_asked;
  channel.meeting_is_named = channel.meeting_is_named && seconds > times_.name;
  if (gave_up_ || (!over && (channel.meeting_is_named || seconds <= times_.name))) {
    return;
  }
  // The first of this process's waiting members says so.
  const std::vector<std::shared_ptr<Channel>> channels = Channels();
  const auto first = std::find_if(channels.begin(), channels.end(), [&](const std::shared_ptr<Channel>& other) {
    return other->group.key == channel.group.key && other->met_since != 0;
  });
  if (!over && first != channels.end() && first->get() != &channel) {
    return;
  }
  std::string text =
      fmt::format("ranks {} of group '{}' have waited for each other on the host to {} for {:.0f} s",
                  fmt::join(channel.group.ranks, ", "), channel.group.name, channel.met_to.load(), seconds);
  for (const std::shared_ptr<Channel>& other : channels) {
    if (other->group.key == channel.group.key && other->met_since == 0) {
      text += fmt::format("; rank {} does not wait there", other->group.rank);
    }
  }
  if (over) {
    gave_up_ = true;
    hooks_.give_up(channel.group.rank, text + "; the job was asked to end");
  } else {
    channel.meeting_is_named = true;
    hooks_.say(fmt::format("rank {}: {}", channel.group.rank, text));
  }
}

void DeviceCallWatch::Look(Channel& channel, double now) {
  LookAtMeeting(channel, now);
  Ask(channel, now);
  bool to_name = false;
  double seconds = 0;
  {
    const std::lock_guard lock(channel.mutex);
    seconds = channel.open.empty() ? 0 : now - channel.since;
    to_name = seconds > times_.name && !channel.named;
  }
  const bool over = seconds > (timeouts_are_short_ ? times_.when_asked : times_.give_up);
  if (gave_up_ || (!to_name && !over)) {
    return;
  }
  bool hopeless = false;
  const std::string text = Describe(channel, seconds, &hopeless);
  if (text.empty()) {
    return;  // it has just ended
  }
  {
    const std::lock_guard lock(channel.mutex);
    channel.named = true;
  }
  if (hopeless || over) {
    gave_up_ = true;
    hooks_.give_up(channel.group.rank, text + (timeouts_are_short_ ? "; the job was asked to end" : ""));
  } else {
    hooks_.say(fmt::format("rank {}: {}", channel.group.rank, text));
  }
}

// `hopeless`: every member's device has begun the call, so that no rank is awaited.
std::string DeviceCallWatch::Describe(Channel& channel, double seconds, bool* hopeless) {
  std::string text;
  std::int64_t place = 0;
  {
    const std::lock_guard lock(channel.mutex);
    if (channel.open.empty()) {
      return "";
    }
    const WatchedCall& call = channel.open.front().call;
    place = channel.open.front().place;
    text = fmt::format("{}, number {} of group '{}' of ranks {}, has {} on stream {} for {:.0f} s",
                       trireme::Describe(call.call), call.sequence, channel.group.name,
                       fmt::join(channel.group.ranks, ", "), channel.started ? "been running" : "waited to start",
                       call.stream, seconds);
  }
  std::size_t running = 0;
  for (const std::shared_ptr<Channel>& other : Channels()) {
    if (other->group.key != channel.group.key) {
      continue;
    }
    const std::lock_guard lock(other->mutex);
    const bool at_it = !other->open.empty() && other->open.front().place == place;
    running += at_it && other->started ? 1 : 0;
    if (other->enqueued_calls <= place) {
      text +=
          fmt::format("; rank {} has not come to it (its last there is number {})", other->group.rank, other->enqueued);
    } else if (at_it && !other->started) {
      text += fmt::format("; rank {}'s device has not come to it", other->group.rank);
    }
  }
  *hopeless = running == channel.group.ranks.size();
  return text;
}

}  // namespace trireme
