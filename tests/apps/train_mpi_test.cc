// What refuses a run of several processes: found together, before anything is written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "apps/program.h"

namespace trireme {
namespace {

using testing::HasSubstr;

// The program as `ranks` processes.
Outcome RunProcesses(const Workplace& place, int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"-c", "exec " TRIREME_LAUNCHER " -n " + std::to_string(ranks) + " \"$@\"", "sh",
                                    TRIREME_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return place.End(place.Start(words, "/bin/sh"), 0);
}

TEST(TrainOverMpi, RanksWithoutRoomOnTheirMachineAreRefusedBeforeAnythingIsWritten) {
  const Workplace place;
  place.Write("recipe.toml", LargeRecipe(2));
  const Outcome outcome = RunProcesses(place, 2, {"train", "recipe.toml", "--run", "run"});
  EXPECT_EQ(outcome.code, 2) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("trireme: rank 0: the 2 ranks of this machine need"));
  EXPECT_FALSE(place.Has("run"));
}

TEST(TrainOverMpi, ANumberOfProcessesThatIsNotTheLayoutsIsRefusedBeforeAnythingIsWritten) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  const Outcome outcome = RunProcesses(place, 3, {"train", "recipe.toml", "--run", "run"});
  EXPECT_EQ(outcome.code, 2) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("= 8 ranks, but the run has 3"));
  EXPECT_FALSE(place.Has("run"));
}

TEST(TrainOverMpi, AFolderOfAnotherJobIsLeftAsItIs) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  const std::vector<std::string> arguments = {"train", "recipe.toml", "--run", "run", "--set", "layout.pipeline=1"};
  std::vector<std::string> endless = arguments;
  endless.insert(endless.end(), {"--steps", "1000000"});
  const pid_t first = place.Start(endless);
  for (int i = 0; i < 2000 && place.Read("run/metrics.jsonl").empty(); ++i) {
    usleep(10'000);
  }
  const std::string before = place.Read("run/run.toml");
  const Outcome second = RunProcesses(place, 4, arguments);
  EXPECT_EQ(second.code, 2) << second.out << second.err;
  EXPECT_THAT(second.err, HasSubstr("another job is at work in this run folder"));
  EXPECT_EQ(place.Read("run/run.toml"), before);
  EXPECT_EQ(place.End(first, SIGTERM).code, 3);
}

}  // namespace
}  // namespace trireme
