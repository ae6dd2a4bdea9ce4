#include "operate/stop_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <csignal>
#include <vector>

#include "scratch_directory.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Stage = StopWatch::Stage;

// Signals do what they did before, for the tests that follow.
struct SignalsRestored {
  SignalsRestored() = default;
  ~SignalsRestored() {
    std::signal(SIGTERM, SIG_DFL);
    std::signal(SIGINT, SIG_DFL);
  }
  SignalsRestored(const SignalsRestored&) = delete;
  SignalsRestored& operator=(const SignalsRestored&) = delete;
};

class StopWatchTest : public testing::Test {
 protected:
  static constexpr int kGoesOn = -1;

  StopWatchOptions Options(double still_seconds = 0.3) {
    return {.flight = folder_.path().string(),
            .message =
                [this](const std::string& text) {
                  const std::lock_guard lock(mutex_);
                  messages_.push_back(text);
                },
            .end =
                [this](int code) {
                  code_ = code;
                  code_.notify_all();
                },
            .still_seconds = still_seconds,
            .poll_seconds = 0.01};
  }
  // The exit code that the watch ends the process with; never returns when it does not.
  int AwaitEnd() {
    code_.wait(kGoesOn);
    return code_;
  }
  std::vector<std::string> Messages() {
    const std::lock_guard lock(mutex_);
    return messages_;
  }
  void AwaitMessage() {
    while (Messages().empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  ScratchDirectory folder_;
  SignalsRestored restored_;  // before signals_: it comes later
  StopSignals signals_;
  std::atomic<int> code_ = kGoesOn;
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

TEST_F(StopWatchTest, EndsAProcessThatHasNotBegunToTrain) {
  Ledger ledger(folder_.path().string(), 0, {});
  {
    StopWatch watch(signals_, Options());
    const StopWatch::Rank rank(&watch, 0, &ledger);
    raise(SIGINT);
    EXPECT_EQ(AwaitEnd(), 3);
  }
  EXPECT_THAT(Messages(), ElementsAre(HasSubstr("before the first step")));
  EXPECT_EQ(ReadLedger(folder_ / LedgerName(0)).end, LedgerEnd::kStopped);
}

TEST_F(StopWatchTest, EndsOneWhoseRanksDoNotMove) {
  Ledger ledger(folder_.path().string(), 0, {});
  ledger.PromiseBeats();
  ledger.SetPhase(1, "forward");
  StopWatch watch(signals_, Options());
  StopWatch::Rank rank(&watch, 0, &ledger);
  rank.Enter(Stage::kTraining);
  raise(SIGTERM);
  EXPECT_EQ(AwaitEnd(), 1);
  EXPECT_THAT(Messages(), ElementsAre(HasSubstr("the step under way is finished and saved"),
                                      HasSubstr("no rank of this process has moved")));
}

TEST_F(StopWatchTest, LeavesAStepThatMovesAndASaveAlone) {
  Ledger ledger(folder_.path().string(), 0, {});
  ledger.PromiseBeats();
  ledger.SetPhase(1, "forward");
  {
    StopWatch watch(signals_, Options(1.5));
    StopWatch::Rank rank(&watch, 0, &ledger);
    rank.Enter(Stage::kTraining);
    raise(SIGTERM);
    AwaitMessage();
    for (int i = 0; i < 200; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      ledger.Alive();
    }
    ledger.SetPhase(1, "save");
    std::this_thread::sleep_for(std::chrono::milliseconds(2000));
    rank.Enter(Stage::kEnding);
  }
  EXPECT_EQ(code_, kGoesOn);
  EXPECT_THAT(Messages(), ElementsAre(HasSubstr("is finished and saved")));
}

}  // namespace
}  // namespace trireme
