#include "comm/device_call_watch.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>

#include "base/error.h"
#include "comm/call_check.h"

namespace trireme {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Calls of a group that are compared as they are enqueued. Members further apart than this meet in Verify.
constexpr std::size_t kBoard = 1024;

}  // namespace

// What the members of a group in this process have enqueued.
struct CallBoard {
  struct Entry {
    std::int64_t sequence = -1;
    int rank = 0;
    CollectiveCall call;
  };
  std::mutex mutex;
  std::array<Entry, kBoard> entries;
};

class DeviceCallWatch::Channel {
 public:
  Channel(WatchedGroup its_group, Device& its_device, std::shared_ptr<CallBoard> its_board)
      : group(std::move(its_group)), device(its_device), board(std::move(its_board)) {}

  const WatchedGroup group;
  Device& device;
  const std::shared_ptr<CallBoard> board;

  std::mutex mutex;  // of all below
  std::deque<WatchedCall> open;
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
  channels_.push_back(
      std::make_shared<Channel>(group, device, board == nullptr ? std::make_shared<CallBoard>() : board));
  return channels_.back();
}

void DeviceCallWatch::Compare(Channel& channel, std::int64_t sequence, const CollectiveCall& call) {
  const std::lock_guard lock(channel.board->mutex);
  CallBoard::Entry& entry = channel.board->entries[static_cast<std::size_t>(sequence) % kBoard];
  Require(entry.sequence != sequence || entry.call == call, "{}",
          MismatchMessage(channel.group.name, {entry.rank, entry.call}, {channel.group.rank, call}));
  if (entry.sequence < sequence) {
    entry = {sequence, channel.group.rank, call};
  }
}

void DeviceCallWatch::Follow(Channel& channel, const WatchedCall& call) {
  const std::lock_guard lock(channel.mutex);
  if (channel.open.empty()) {
    channel.since = Now();
    channel.started = channel.named = false;
  }
  channel.open.push_back(call);
  channel.enqueued = call.sequence;
}

void DeviceCallWatch::Leave(Channel& channel) {
  DropObservers(channel);
  const std::lock_guard lock(mutex_);
  std::erase_if(channels_, [&](const std::shared_ptr<Channel>& each) { return each.get() == &channel; });
  const std::lock_guard channel_lock(channel.mutex);
  channel.open.clear();
}

void DeviceCallWatch::DropObservers(Channel& channel) {
  const std::lock_guard lock(channel.mutex);
  for (WatchedCall& call : channel.open) {
    call.observer = nullptr;
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

void DeviceCallWatch::Look(Channel& channel, double now) {
  bool to_name = false;
  double seconds = 0;
  {
    // Held while events are asked: Leave waits for this look, then the device and the observers may go.
    const std::lock_guard lock(channel.mutex);
    const auto tell = [](const WatchedCall& call, bool ended) {
      if (call.observer != nullptr) {
        ended ? call.observer->DeviceEnded(call.ticket) : call.observer->DeviceStarted(call.ticket);
      }
    };
    const bool all = !channel.open.empty() && channel.device.IsReached(channel.open.back().end);
    while (!channel.open.empty() && (all || channel.device.IsReached(channel.open.front().end))) {
      tell(channel.open.front(), true);
      channel.open.pop_front();
      channel.since = now;
      channel.started = channel.named = false;
    }
    if (!channel.open.empty() && !channel.started && channel.device.IsReached(channel.open.front().begin)) {
      channel.started = true;
      tell(channel.open.front(), false);
    }
    seconds = channel.open.empty() ? 0 : now - channel.since;
    to_name = seconds > times_.name && !channel.named;
  }
  const bool over = seconds > (hurried_ ? times_.when_asked : times_.give_up);
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
    hooks_.give_up(channel.group.rank, text + (hurried_ ? "; the job was asked to end" : ""));
  } else {
    hooks_.say(fmt::format("rank {}: {}", channel.group.rank, text));
  }
}

// `hopeless`: every member's device has begun the call, so that no rank is awaited.
std::string DeviceCallWatch::Describe(const Channel& channel, double seconds, bool* hopeless) {
  std::string text;
  std::int64_t sequence = 0;
  {
    const std::lock_guard lock(const_cast<Channel&>(channel).mutex);
    if (channel.open.empty()) {
      return "";
    }
    const WatchedCall& call = channel.open.front();
    sequence = call.sequence;
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
    running += !other->open.empty() && other->open.front().sequence == sequence && other->started ? 1 : 0;
    if (other->enqueued < sequence) {
      text +=
          fmt::format("; rank {} has not come to it (its last there is number {})", other->group.rank, other->enqueued);
    } else if (!other->open.empty() && other->open.front().sequence == sequence && !other->started) {
      text += fmt::format("; rank {}'s device has not come to it", other->group.rank);
    }
  }
  *hopeless = running == channel.group.ranks.size();
  return text;
}

}  // namespace trireme
