#include "train/run_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "comm/ledger.h"

namespace trireme {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

constexpr RunLockTimes kQuick{.patience = milliseconds(50), .heartbeat = milliseconds(40)};

class RunLockTest : public testing::Test {
 protected:
  RunLockTest() : folder_(testing::TempDir() + fmt::format("/run-lock-{}", getpid())) {
    std::filesystem::remove_all(folder_);
  }
  ~RunLockTest() override { std::filesystem::remove_all(folder_); }

  // "" when the lock could be had.
  std::string Refusal(const RunLockTimes& times = kQuick) const {
    try {
      const RunLock lock(folder_, "lock", times);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  std::string folder_;
};

TEST_F(RunLockTest, TheSecondIsRefusedAndToldWhoHoldsIt) {
  const RunLock first(folder_, "lock", kQuick);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("another job is at work"), HasSubstr(fmt::format("process {}", getpid())),
                               HasSubstr(HostName()), HasSubstr("s ago")));
}

TEST_F(RunLockTest, IsFreeAgainAfterItsHolder) {
  { const RunLock first(folder_, "lock", kQuick); }
  EXPECT_EQ(Refusal(), "");
}

TEST_F(RunLockTest, TwoNamesAreTwoLocks) {
  const RunLock first(folder_, "supervisor.lock", kQuick);
  EXPECT_EQ(Refusal(), "");
}

TEST_F(RunLockTest, ThatOfAKilledProcessIsTakenOver) {
  const pid_t child = fork();
  if (child == 0) {
    const RunLock first(folder_, "lock", kQuick);
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(Refusal(), "");
}

TEST_F(RunLockTest, OfAnotherMachineIsRespectedWhileItShowsLife) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/lock") << "elsewhere 17\n";
  std::atomic<bool> end = false;
  std::thread other([&] {
    while (!end) {
      std::filesystem::last_write_time(folder_ + "/lock", std::filesystem::file_time_type::clock::now());
      std::this_thread::sleep_for(milliseconds(10));
    }
  });
  // So long that a loaded machine still lets the other thread run within it.
  const std::string refusal = Refusal({.patience = milliseconds(1500), .heartbeat = milliseconds(1000)});
  end = true;
  other.join();
  EXPECT_THAT(refusal, HasSubstr("process 17 on elsewhere"));
  EXPECT_EQ(Refusal(), "") << "and taken over when it shows none";
}

TEST_F(RunLockTest, AnyBytesInTheFileAreSurvived) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/lock") << std::string(1000, '\x01') << "\n\n\x7f";
  EXPECT_EQ(Refusal(), "");
}

}  // namespace
}  // namespace trireme
