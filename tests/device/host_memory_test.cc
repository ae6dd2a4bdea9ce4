#include "device/host_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace trireme {
namespace {

// A folder that stands for the root of a machine with control groups.
class HostMemory : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "trireme_host_memory_" + std::to_string(::getpid());
    std::filesystem::remove_all(root_);
    machine_ = HostMemoryBytes(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << '\n';
  }
  std::string root_;
  std::int64_t machine_ = 0;
};

TEST_F(HostMemory, IsTheMachinesWithoutGroups) {
  EXPECT_GT(machine_, 1 << 20);
  Write("/proc/self/cgroup", "0::/\nnonsense\n3:memory:\n:");
  EXPECT_EQ(HostMemoryBytes(root_), machine_);
}

TEST_F(HostMemory, IsTheLeastLimitOfTheGroupsAround) {
  Write("/proc/self/cgroup", "1:name=systemd:/\n0::/slurm/job_7/step_0");
  Write("/sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max");
  EXPECT_EQ(HostMemoryBytes(root_), machine_);
  Write("/sys/fs/cgroup/slurm/job_7/memory.max", "70000");
  EXPECT_EQ(HostMemoryBytes(root_), 70000);
  Write("/sys/fs/cgroup/memory.max", "60000");
  EXPECT_EQ(HostMemoryBytes(root_), 60000);
}

TEST_F(HostMemory, KnowsGroupsOfTheFirstVersion) {
  Write("/proc/self/cgroup", "5:cpu,memory:/docker/a1\n0::/");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(HostMemoryBytes(root_), machine_);
  Write("/sys/fs/cgroup/memory/docker/a1/memory.limit_in_bytes", "50000");
  EXPECT_EQ(HostMemoryBytes(root_), 50000);
}

TEST_F(HostMemory, RanksShareAQuarterOfWhatPlansLeave) {
  const std::int64_t all = HostMemoryBytes();
  EXPECT_EQ(SpareBytesOfRank(0, 1), all / 4);
  EXPECT_EQ(SpareBytesOfRank(all - 80, 2), 10);
  EXPECT_EQ(SpareBytesOfRank(all + 80, 2), 0);
}

}  // namespace
}  // namespace trireme
