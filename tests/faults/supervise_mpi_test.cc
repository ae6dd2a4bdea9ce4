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

// In the long form every phase at default settings.
TEST(SupervisorOverMpi, NamesTheStoppedProcessInEveryPhase) {
  const bool every = Faults().rounds > 1;
  const std::vector<std::string> phases =
      every ? std::vector<std::string>{"load", "batch",  "forward", "backward", "reduce",
                                       "norm", "update", "check",   "save"}
            : std::vector<std::string>{"reduce"};
  for (const std::string& phase : phases) {
    const FaultRun run;
    const std::string step = phase == "load" ? "0" : "6";
    const Outcome outcome =
        run.Run({"--supervise", "--launcher", TRIREME_LAUNCHER " -n 4", "--stall-seconds", every ? "10" : "2",
                 "--inject", "rank=3,step=" + step + ",phase=" + phase + ",what=stop"});
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("rank 3 is stopped (SIGSTOP) in phase '" + phase + "'"));
  }
  std::printf("score: a stopped process named in %zu phases\n", phases.size());
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
