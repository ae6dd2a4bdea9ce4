#include "device/host_cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "device/pinning.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A folder that stands for the root of a machine; OMP_NUM_THREADS is not set while it is looked at.
class HostCoresOf : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "trireme_host_cores_" + std::to_string(::getpid());
    std::filesystem::remove_all(root_);
    if (const char* const text = getenv("OMP_NUM_THREADS"); text != nullptr) {
      before_ = text;
    }
    unsetenv("OMP_NUM_THREADS");
  }
  void TearDown() override {
    std::filesystem::remove_all(root_);
    if (before_.empty()) {
      unsetenv("OMP_NUM_THREADS");
    } else {
      setenv("OMP_NUM_THREADS", before_.c_str(), 1);
    }
  }
  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << '\n';
  }
  // 16 processors: two nodes of four cores with two hardware threads each, as Linux numbers them.
  void WriteServer(const std::string& mask) const {
    Write("/proc/self/status", "Name:\tx\nCpus_allowed:\tffff\nCpus_allowed_list:\t" + mask + "\nMems_allowed:\t1");
    Write("/sys/devices/system/cpu/online", "0-15");
    Write("/sys/devices/system/node/online", "0-1");
    Write("/sys/devices/system/node/node0/cpulist", "0-3,8-11");
    Write("/sys/devices/system/node/node1/cpulist", "4-7,12-15");
    for (int id = 0; id < 16; ++id) {
      Write("/sys/devices/system/cpu/cpu" + std::to_string(id) + "/topology/thread_siblings_list",
            std::to_string(id % 8) + "," + std::to_string(id % 8 + 8));
    }
  }
  HostCores Read() const { return ReadHostCores(root_); }
  std::string root_;
  std::string before_;
};

TEST_F(HostCoresOf, ThisMachineAreThoseOfTheMask) {
  cpu_set_t mask;
  ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
  const HostCores cores = ReadHostCores();
  EXPECT_EQ(static_cast<int>(cores.processors.size()), CPU_COUNT(&mask));
  EXPECT_GE(cores.usable(), 1);
  EXPECT_LE(cores.usable(), CPU_COUNT(&mask));
}

TEST_F(HostCoresOf, TheMachineAreAlsoThoseThatOtherProcessesAreBoundTo) {
  WriteServer("3");
  EXPECT_EQ(Read().cores(), 1);
  EXPECT_EQ(ReadMachineCores(root_).cores(), 8);
  Write("/proc/self/cgroup", "0::/slurm/job_7");
  Write("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
  Write("/sys/fs/cgroup/slurm/job_7/cpuset.cpus.effective", "0-3");
  EXPECT_EQ(ReadMachineCores(root_).cores(), 4);
}

TEST_F(HostCoresOf, AJobAreThoseThatItsLauncherWasGiven) {
  WriteServer("3");
  Write("/proc/self/status", "Name:\ttrireme\nPPid:\t40\nCpus_allowed_list:\t3");
  Write("/proc/40/status", "Name:\twrapper.sh\nPPid:\t30\nCpus_allowed_list:\t3");
  Write("/proc/30/status", "Name:\tmpirun\nPPid:\t20\nCpus_allowed_list:\t2-6");
  Write("/proc/20/status", "Name:\tbash\nPPid:\t1\nCpus_allowed_list:\t0-15");
  EXPECT_THAT(ReadMachineCores(root_).ids(), ElementsAre(2, 3, 4, 5, 6));
  Write("/proc/30/status", "Name:\tmake\nPPid:\t20\nCpus_allowed_list:\t2-6");
  EXPECT_EQ(ReadMachineCores(root_).cores(), 8) << "a process that is no launcher says nothing of the job";
}

TEST_F(HostCoresOf, AServerAreItsCoresNotItsHardwareThreads) {
  WriteServer("0-15");
  const HostCores cores = Read();
  EXPECT_EQ(cores.processors.size(), 16U);
  EXPECT_EQ(cores.processors[12], (Processor{.id = 12, .core = 4, .node = 1}));
  EXPECT_EQ(cores.online, 16);
  EXPECT_EQ(cores.cores(), 8);
  EXPECT_THAT(cores.nodes(), ElementsAre(0, 1));
  EXPECT_EQ(ThreadsPerRank(cores, 1), 8);
  EXPECT_EQ(ThreadsPerRank(cores, 3), 2);
  EXPECT_EQ(ThreadsPerRank(cores, 9), 1);
}

TEST_F(HostCoresOf, AMaskLeavesThoseOfTheMask) {
  WriteServer("4-5,12");
  const HostCores cores = Read();
  EXPECT_EQ(cores.cores(), 2);
  EXPECT_EQ(cores.online, 16);
  EXPECT_THAT(cores.nodes(), ElementsAre(1));
}

TEST_F(HostCoresOf, AQuotaLimitsThreads) {
  WriteServer("0-15");
  Write("/proc/self/cgroup", "0::/kubepods/pod7");
  Write("/sys/fs/cgroup/kubepods/pod7/cpu.max", "max 100000");
  EXPECT_EQ(Read().usable(), 8);
  Write("/sys/fs/cgroup/kubepods/cpu.max", "350000 100000");
  EXPECT_EQ(Read().quota, 3.5);
  EXPECT_EQ(Read().usable(), 3);
  Write("/sys/fs/cgroup/kubepods/pod7/cpu.max", "50000 100000");
  EXPECT_EQ(Read().usable(), 1);
}

TEST_F(HostCoresOf, AQuotaOfTheFirstVersionLimitsToo) {
  WriteServer("0-15");
  Write("/proc/self/cgroup", "4:cpu,cpuacct:/docker/a");
  Write("/sys/fs/cgroup/cpu/docker/a/cpu.cfs_quota_us", "-1");
  Write("/sys/fs/cgroup/cpu/docker/a/cpu.cfs_period_us", "100000");
  EXPECT_EQ(Read().quota, 0);
  Write("/sys/fs/cgroup/cpu/docker/a/cpu.cfs_quota_us", "200000");
  EXPECT_EQ(Read().usable(), 2);
}

TEST_F(HostCoresOf, AMachineThatSaysNothingArePlainOnes) {
  const HostCores cores = Read();
  EXPECT_GE(cores.cores(), 1);
  EXPECT_EQ(cores.quota, 0);
  EXPECT_THAT(cores.nodes(), ElementsAre(0));
}

TEST_F(HostCoresOf, TheUsersThreadCountIsTaken) {
  WriteServer("0-15");
  setenv("OMP_NUM_THREADS", "5", 1);
  EXPECT_EQ(ThreadsPerRank(Read(), 4), 5);
  for (const char* const nonsense : {"", "0", "-3", "many", "99999"}) {
    setenv("OMP_NUM_THREADS", nonsense, 1);
    EXPECT_EQ(ThreadsPerRank(Read(), 4), 2) << nonsense;
  }
}

TEST(ProcessorList, IsReadAndWritten) {
  EXPECT_THAT(ParseProcessorList("\t0-2,8,5-6"), ElementsAre(0, 1, 2, 5, 6, 8));
  EXPECT_EQ(ProcessorListText({0, 1, 2, 5, 6, 8}), "0-2,5-6,8");
  EXPECT_THAT(ParseProcessorList("3,1,1"), ElementsAre(1, 3));
  EXPECT_THAT(ParseProcessorList(""), IsEmpty());
  EXPECT_THAT(ParseProcessorList("7,x"), ElementsAre(7));
  EXPECT_THAT(ParseProcessorList("4-"), IsEmpty());
  EXPECT_THAT(ParseProcessorList("0-99999999999"), IsEmpty());
  EXPECT_EQ(ProcessorListText({}), "");
}

TEST_F(HostCoresOf, RanksLieOnOneNodeSideBySide) {
  WriteServer("0-15");
  const HostCores cores = Read();
  EXPECT_THAT(ProcessorsOfRanks(cores, {"auto", 2, 4}), ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
  EXPECT_THAT(ProcessorsOfRanks(cores, {"auto", 4, 1}),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(4), ElementsAre(5)));
  EXPECT_THAT(ProcessorsOfRanks(cores, {"cores", 2, 3}), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(4, 5, 6)));
  EXPECT_THAT(ProcessorsOfRanks(cores, {"cores", 1, 6}), ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5)));
}

TEST_F(HostCoresOf, RanksAreNotBoundWhereThatCannotHelp) {
  WriteServer("0-15");
  EXPECT_THAT(ProcessorsOfRanks(Read(), {"none", 2, 4}), IsEmpty());
  EXPECT_THAT(ProcessorsOfRanks(Read(), {"cores", 9, 1}), IsEmpty());
  EXPECT_THAT(ProcessorsOfRanks(Read(), {"cores", 2, 5}), IsEmpty());
  WriteServer("0-3");
  EXPECT_THAT(ProcessorsOfRanks(Read(), {"auto", 2, 2}), IsEmpty());
  EXPECT_THAT(ProcessorsOfRanks(Read(), {"cores", 2, 2}), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST_F(HostCoresOf, ABoundThreadHasItsMask) {
  const HostCores cores = ReadHostCores();
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const int last = cores.processors.back().id;
  EXPECT_TRUE(BindThisThread({last}));
  cpu_set_t bound;
  ASSERT_EQ(sched_getaffinity(0, sizeof bound, &bound), 0);
  EXPECT_EQ(CPU_COUNT(&bound), 1);
  EXPECT_TRUE(CPU_ISSET(last, &bound));
  EXPECT_FALSE(BindThisThread({}));
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST_F(HostCoresOf, AClaimExcludesOverlappingOnes) {
  std::filesystem::create_directories(root_);
  const std::string path = root_ + "/claims";
  auto first = std::make_unique<ProcessorClaim>(std::vector<int>{0, 1, 2, 3}, path);
  EXPECT_TRUE(first->alone());
  EXPECT_FALSE(ProcessorClaim({3, 4}, path).alone());
  EXPECT_TRUE(ProcessorClaim({4, 5}, path).alone());
  first.reset();
  EXPECT_TRUE(ProcessorClaim({3, 4}, path).alone());
  EXPECT_FALSE(ProcessorClaim({0}, root_ + "/no/such/folder").alone());
}

}  // namespace
}  // namespace trireme
