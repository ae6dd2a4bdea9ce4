#include "operate/run_lock.h"

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

// A file system without flock, seen from a machine or container with this boot id and namespace of processes.
RunLockPlace Without(const std::string& boot, const std::string& processes) {
  RunLockPlace place;
  place.flock = false;
  place.identity.boot = boot;
  place.identity.processes = processes;
  return place;
}

TEST_F(RunLockTest, WithoutFlockAnEqualHostNameIsNoLicence) {
  for (const auto& [boot, processes] : std::vector<std::pair<std::string, std::string>>{
           {"other-boot", "pid:[1]"}, {"this-boot", "pid:[2]"}, {"this-boot", "pid:[1]"}}) {
    const RunLock first(folder_, "lock", kQuick, Without("this-boot", "pid:[1]"));
    EXPECT_THROW(RunLock(folder_, "lock", kQuick, Without(boot, processes)), Error) << boot << " " << processes;
  }
  EXPECT_NO_THROW(RunLock(folder_, "lock", kQuick, Without("this-boot", "pid:[1]"))) << "it was given up";
}

TEST_F(RunLockTest, WithoutFlockTheOneOfADeadProcessIsTakenOver) {
  std::filesystem::create_directories(folder_);
  const std::string here = RunLockIdentity::Here().host;
  // This process's number, of one that started at another time; and a container's that shows no life.
  for (const std::string& owner : {fmt::format("{} {} this-boot pid:[1] 1 token\n", here, getpid()),
                                   fmt::format("{} 17 this-boot pid:[9] 1 token\n", here)}) {
    std::ofstream(folder_ + "/lock") << owner;
    EXPECT_NO_THROW(RunLock(folder_, "lock", kQuick, Without("this-boot", "pid:[1]"))) << owner;
  }
}

TEST_F(RunLockTest, OfAnotherMachineOfTheSameNameIsRespected) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/lock") << RunLockIdentity::Here().host << " 17 another-boot pid:[1] 5 token\n";
  std::atomic<bool> end = false;
  std::thread other([&] {
    while (!end) {
      std::filesystem::last_write_time(folder_ + "/lock", std::filesystem::file_time_type::clock::now());
      std::this_thread::sleep_for(milliseconds(10));
    }
  });
  const std::string refusal = Refusal();
  end = true;
  other.join();
  EXPECT_THAT(refusal, HasSubstr("process 17"));
}

TEST_F(RunLockTest, AnyBytesInTheFileAreSurvived) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/lock") << std::string(1000, '\x01') << "\n\n\x7f";
  EXPECT_EQ(Refusal(), "");
}

}  // namespace
}  // namespace trireme
