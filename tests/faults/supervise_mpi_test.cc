#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faults/fault_run.h"

namespace trireme {
namespace {

using testing::HasSubstr;

std::vector<std::string> Supervised(const std::string& drill) {
  return {"--supervise", "--launcher", TRIREME_LAUNCHER " -n 4", "--stall-seconds", "2", "--inject", drill};
}

TEST(SupervisorOverMpi, NamesTheOneProcessThatIsStopped) {
  const FaultRun run;
  const Outcome outcome = run.Run(Supervised("rank=2,step=6,phase=forward,what=stop"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("rank 2 is stopped (SIGSTOP) in phase 'forward'"));
  EXPECT_EQ(run.Digest(), run.UntouchedDigest());
}

TEST(SupervisorOverMpi, StartsAgainAfterARankIsKilled) {
  const FaultRun run;
  const Outcome outcome = run.Run(Supervised("rank=1,step=5,phase=reduce,what=kill"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("the job died at step 5"));
  EXPECT_EQ(run.Digest(), run.UntouchedDigest());
}

}  // namespace
}  // namespace trireme
