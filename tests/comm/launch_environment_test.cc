#include "comm/launch_environment.h"

#include <cstdlib>

#include "comm/rank_runner.h"

namespace trireme {
namespace {

// An environment without any launcher's variables, as long as the test runs.
class LaunchEnvironment : public testing::Test {
 protected:
  LaunchEnvironment() {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_SIZE",
                             "PMI_RANK", "PMIX_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_PROCID",
                             "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"}) {
      const char* const value = std::getenv(name);
      saved_.emplace_back(name, value == nullptr ? std::nullopt : std::optional<std::string>(value));
      unsetenv(name);
    }
  }
  ~LaunchEnvironment() override {
    for (const auto& [name, value] : saved_) {
      value.has_value() ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    }
  }

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> saved_;
};

TEST_F(LaunchEnvironment, OfAShellNamesNoLauncher) {
  EXPECT_FALSE(LaunchedByMpi());
  EXPECT_EQ(LocalRankFromEnvironment(), std::nullopt);
  EXPECT_EQ(RankFromEnvironment(), std::nullopt);
}

TEST_F(LaunchEnvironment, OfMpirunIsRecognised) {
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "3", 1);
  setenv("OMPI_COMM_WORLD_RANK", "11", 1);
  EXPECT_TRUE(LaunchedByMpi());
  EXPECT_EQ(RankFromEnvironment(), 11);
  EXPECT_EQ(LocalRankFromEnvironment(), 3);
}

TEST_F(LaunchEnvironment, OfHydraIsRecognised) {
  setenv("PMI_SIZE", "4", 1);
  setenv("PMI_RANK", "2", 1);
  setenv("MPI_LOCALRANKID", "0", 1);
  EXPECT_TRUE(LaunchedByMpi());
  EXPECT_EQ(RankFromEnvironment(), 2);
  EXPECT_EQ(LocalRankFromEnvironment(), 0);
}

TEST_F(LaunchEnvironment, OfSrunIsRecognisedButNotThatOfABatchScript) {
  setenv("SLURM_PROCID", "0", 1);
  setenv("SLURM_LOCALID", "0", 1);
  EXPECT_FALSE(LaunchedByMpi());
  setenv("SLURM_STEP_NUM_TASKS", "4", 1);
  EXPECT_TRUE(LaunchedByMpi());
  EXPECT_EQ(LocalRankFromEnvironment(), 0);
}

TEST_F(LaunchEnvironment, WithAWordForANumberIsIgnored) {
  setenv("PMI_SIZE", "many", 1);
  setenv("SLURM_LOCALID", "2x", 1);
  EXPECT_FALSE(LaunchedByMpi());
  EXPECT_EQ(LocalRankFromEnvironment(), std::nullopt);
}

}  // namespace
}  // namespace trireme
