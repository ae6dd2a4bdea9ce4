// The last save of a run, which RunCheckpoints tries again while the disk is full.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/durable_file.h"
#include "base/units.h"
#include "comm/ledger.h"
#include "operate/run_checkpoints.h"

namespace trireme {
namespace {

using std::chrono::duration;

// Between two tries, doubling from a second, and between two messages.
constexpr double kLongestPause = 15;
constexpr double kBetweenMessages = 60;
// Before the job's end, for what comes after the last try.
constexpr double kToEnd = 5;
constexpr auto kTick = std::chrono::milliseconds(250);

// What ranks say while they wait; the smallest word counts.
enum Vote : std::int64_t { kGiveUp, kTryNow, kWait };

// Seconds until the last save must be given up.
double SecondsLeft(const LastSaveLimits& limits, double spent) {
  const double left = limits.seconds - spent;
  const auto until = static_cast<double>(limits.until_ns - WallNanoseconds()) * 1e-9 - kToEnd;
  return limits.until_ns > 0 ? std::min(left, until) : left;
}

std::string DurationText(double seconds) {
  return seconds < 120 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.0f} min", seconds / 60);
}

}  // namespace

void RunCheckpoints::HearSaver(const std::string& text) { tries_again_ ? untold_.push_back(text) : Say(text); }

bool RunCheckpoints::IsSaved(std::int64_t step) {
  const bool there = world_.rank() != 0 || saver_.last_committed() == step || last_loaded_ == step;
  return Smallest(there ? 1 : 0) != 0;
}

bool RunCheckpoints::SaveLast(const SavedProgress& progress, std::span<const OwnedState> states,
                              const LastSaveLimits& limits) {
  const Clock::time_point first_try = Clock::now();
  const std::int64_t bytes = BytesOfCheckpoint(states);
  bool saved = false;
  for (int tries = 1; !saved; ++tries) {
    untold_.clear();
    Save(progress, states);
    Settle();
    saved = IsSaved(progress.step);
    if (saved) {
      for (const std::string& text : untold_) {
        Say(text);
      }
      if (tries > 1 && world_.rank() == 0) {
        Say(fmt::format("checkpoint of step {} is saved after {} tries", progress.step, tries));
      }
    } else {
      tries_again_ = true;
      last_started_ = -1;
      if (!AwaitAnotherTry(tries, first_try, bytes, limits)) {
        break;
      }
    }
  }
  tries_again_ = false;
  return saved;
}

bool RunCheckpoints::AwaitAnotherTry(int tries, Clock::time_point first_try, std::int64_t bytes,
                                     const LastSaveLimits& limits) {
  const Clock::time_point failed = Clock::now();
  const double left = SecondsLeft(limits, duration<double>(failed - first_try).count());
  const bool leads = world_.rank() == 0;
  const auto say = [&](const std::string& what) {
    const std::int64_t free = FreeBytes(options_.folder);
    Say(fmt::format("the last checkpoint is not saved: '{}' needs {} bytes ({}), {} are free there; {}",
                    options_.folder, bytes, HumanBytes(bytes), free < 0 ? "an unknown number" : std::to_string(free),
                    what));
  };
  if (leads && left > 0 && (tries == 1 || duration<double>(failed - last_told_).count() >= kBetweenMessages)) {
    last_told_ = failed;
    say(
        fmt::format("trying again for {} (checkpoint.final_save_wait, and no longer than the job may run); SIGTERM, "
                    "Ctrl-C or a file 'stop' in the run's folder gives up",
                    DurationText(left)));
  }
  const double pause = std::min({kLongestPause, static_cast<double>(1U << std::min(tries - 1, 10)), left});
  while (true) {
    const bool given_up = limits.given_up && limits.given_up();
    const bool rested = leads && duration<double>(Clock::now() - failed).count() >= pause;
    const std::int64_t vote = Smallest(given_up || (leads && left <= 0) ? kGiveUp : rested ? kTryNow : kWait);
    if (vote == kGiveUp && leads) {
      say("gave up: this run ends with exit code 5, and what it trained since its newest checkpoint is lost");
    }
    if (vote != kWait) {
      return vote == kTryNow;
    }
    Alive();
    std::this_thread::sleep_for(kTick);
  }
}

}  // namespace trireme
