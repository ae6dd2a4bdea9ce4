#include "operate/stop_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/exit_codes.h"
#include "operate/flight_report.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Times the longest standstill before the request.
constexpr double kPatience = 2;

}  // namespace

StopWatch::StopWatch(const StopSignals& signals, StopWatchOptions options)
    : signals_(signals), options_(std::move(options)), thread_([this] { Run(); }) {}

StopWatch::~StopWatch() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

StopWatch::Rank::Rank(StopWatch* watch, int rank, Ledger* ledger) : watch_(watch), rank_(rank) {
  if (watch_ != nullptr) {
    const std::lock_guard lock(watch_->mutex_);
    watch_->ranks_[rank_] = {.ledger = ledger};
  }
}

StopWatch::Rank::~Rank() {
  if (watch_ != nullptr) {
    const std::lock_guard lock(watch_->mutex_);
    watch_->ranks_[rank_] = {.stage = Stage::kEnding};
  }
}

void StopWatch::Rank::Enter(Stage stage) {
  if (watch_ != nullptr) {
    const std::lock_guard lock(watch_->mutex_);
    watch_->ranks_[rank_].stage = stage;
  }
}

StopWatch::Stage StopWatch::StageOfRanks() const {
  const auto any = [this](Stage stage) {
    return std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& rank) { return rank.second.stage == stage; });
  };
  return any(Stage::kTraining)                     ? Stage::kTraining
         : any(Stage::kStarting) || ranks_.empty() ? Stage::kStarting
                                                   : Stage::kEnding;
}

bool StopWatch::Moves() {
  std::uint64_t beats = 0;
  bool known = true;
  for (const auto& [rank, state] : ranks_) {
    if (state.stage != Stage::kTraining) {
      continue;
    }
    known = known && state.ledger != nullptr && state.ledger->steady() && !state.ledger->on_disk();
    beats += state.ledger != nullptr ? state.ledger->beats() : 0;
  }
  return std::exchange(beats_, beats) != beats || !known;
}

void StopWatch::EndBeforeTraining() {
  options_.message("asked to stop before the first step: nothing has been trained that would have to be saved");
  for (const auto& [rank, state] : ranks_) {
    if (state.ledger != nullptr) {
      state.ledger->Finish(LedgerEnd::kStopped, "asked to stop before the first step");
    }
  }
  options_.end(kExitStopped);
}

void StopWatch::EndHung(double seconds) const {
  if (options_.flight.empty()) {
    options_.message(
        fmt::format("asked to stop: the step has not ended for {:.1f} s, and this run saves nothing", seconds));
    return options_.end(kExitStopped);
  }
  const std::string headline = ReadFlight(options_.flight).headline;
  options_.message(fmt::format(
      "asked to stop, but no rank of this process has moved for {:.1f} s: it ends without a save of this step; {}",
      seconds, headline));
  options_.end(kExitFailed);
}

void StopWatch::Run() {
  Clock::time_point moved = Clock::now();
  double longest = 0;  // standstill while training, before the request
  bool told = false;
  Clock::time_point asked;
  std::unique_lock lock(mutex_);
  while (!over_) {
    wake_.wait_for(lock, Seconds(options_.poll_seconds), [this] { return over_; });
    const Stage stage = StageOfRanks();
    const Clock::time_point now = Clock::now();
    const bool stops = signals_.stops() > 0;
    if (over_ || (stops && stage == Stage::kStarting)) {
      break;
    }
    if (stage != Stage::kTraining) {
      moved = now;
      continue;
    }
    if (stops && !told) {
      told = true;
      asked = now;
      options_.message("asked to stop: the step under way is finished and saved");
    }
    if (options_.flight.empty() ? !stops : Moves()) {
      longest = std::max(longest, stops ? 0 : Seconds(now - moved).count());
      moved = now;
    }
    const double still = Seconds(now - std::max(moved, asked)).count();
    if (stops && still > std::max(options_.still_seconds, kPatience * longest)) {
      return EndHung(still);
    }
  }
  if (!over_) {
    EndBeforeTraining();
  }
}

}  // namespace trireme
