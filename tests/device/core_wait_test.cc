#include "device/core_wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class CoreWaits : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "trireme_core_wait_" + std::to_string(::getpid());
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& thread, const std::string& text) const {
    const std::string folder = root_ + "/proc/self/task/" + thread;
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/schedstat") << text << '\n';
  }
  std::string root_;
};

TEST_F(CoreWaits, AreReadForEveryThread) {
  EXPECT_THAT(ReadCoreWaits(root_), IsEmpty());
  Write("7", "5000000000 120000000 33");
  Write("12", "0 0 1");
  Write("13", "");
  Write("14", "one two three");
  Write("mine", "1 2 3");
  EXPECT_THAT(ReadCoreWaits(root_), ElementsAre(Pair(7, 120000000), Pair(12, 0)));
}

TEST_F(CoreWaits, AShareIsOfTheTimeOfAllThreads) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  EXPECT_DOUBLE_EQ(WaitedShare({{1, kSecond}}, {{1, 3 * kSecond}}, 4, 1), 0.5);
  EXPECT_DOUBLE_EQ(WaitedShare({{1, kSecond}}, {{1, 3 * kSecond}}, 4, 2), 0.25);
  // Thread 2 began meanwhile, and 3 has ended.
  EXPECT_DOUBLE_EQ(WaitedShare({{1, kSecond}, {3, 5 * kSecond}}, {{1, kSecond}, {2, kSecond}}, 4, 2), 0.125);
  EXPECT_DOUBLE_EQ(WaitedShare({}, {{1, 100 * kSecond}}, 4, 1), 0.95) << "a share that leaves nothing says nothing";
  EXPECT_EQ(WaitedShare({}, {}, 4, 1), 0) << "the kernel does not count";
  EXPECT_EQ(WaitedShare({}, {{1, kSecond}}, 0, 1), 0);
}

TEST_F(CoreWaits, SinceNowAreAShare) {
  const CoreWait wait;
  EXPECT_GE(wait.Share(1), 0);
  EXPECT_LE(wait.Share(1), 0.95);
}

}  // namespace
}  // namespace trireme
