#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "operate/supervisor_process.h"

namespace trireme {
namespace {

using testing::HasSubstr;

class Launchers : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("OMPI_ALLOW_RUN_AS_ROOT");
    unsetenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM");
  }
};

TEST_F(Launchers, OfOpenMpiRefuseRootUnlessTheyAreTold) {
  for (const char* const name : {"mpirun", "/usr/bin/mpirun", "mpiexec", "mpirun.openmpi"}) {
    EXPECT_THAT(LauncherHint({name, "-n", "8", "trireme"}, true), HasSubstr("--allow-run-as-root")) << name;
    EXPECT_EQ(LauncherHint({name, "-n", "8", "trireme"}, false), "") << name;
    EXPECT_EQ(LauncherHint({name, "--allow-run-as-root", "-n", "8", "trireme"}, true), "") << name;
  }
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  EXPECT_NE(LauncherHint({"mpirun", "trireme"}, true), "") << "Open MPI wants both";
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  EXPECT_EQ(LauncherHint({"mpirun", "trireme"}, true), "");
}

TEST_F(Launchers, OfOtherKindsSayNothing) {
  for (const char* const name : {"srun", "mpiexec.hydra", "mpirun.mpich", "trireme"}) {
    EXPECT_EQ(LauncherHint({name, "-n", "8"}, true), "") << name;
  }
  EXPECT_EQ(LauncherHint({}, true), "");
}

}  // namespace
}  // namespace trireme
