#include "operate/stop_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace trireme {
namespace {

// How a process ends that does this and then exits with 3: as waitpid says it.
int StatusAfter(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST(StopSignals, ThatAskToEndAreRequestsAndTheStrongestStays) {
  const int status = StatusAfter([] {
    StopSignals signals;
    const bool none = signals.Pending() == StopRequest::kNone;
    raise(SIGTERM);
    raise(SIGUSR1);
    const bool stops = signals.Pending() == StopRequest::kSaveAndStop;
    signals.Clear();
    raise(SIGUSR1);
    _exit(none && stops && signals.Pending() == StopRequest::kSave ? 0 : 1);
  });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(StopSignals, ThatComeAfterTheRunWasAskedToEndDoNotChangeHowItEnds) {
  for (const int late : {SIGTERM, SIGINT, SIGUSR1}) {
    const int status = StatusAfter([late] {
      {
        StopSignals signals;
        raise(SIGTERM);
        signals.Clear();
      }
      raise(late);
    });
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << late;
    EXPECT_EQ(WEXITSTATUS(status), 3);
  }
}

TEST(StopSignals, AreThoseOfTheProcessAgainAfterARunThatNobodyAskedToEnd) {
  const int status = StatusAfter([] {
    {
      const StopSignals signals;
      raise(SIGUSR1);
    }
    raise(SIGTERM);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

}  // namespace
}  // namespace trireme
