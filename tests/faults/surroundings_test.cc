// What a machine does to a run: disks that fill up, clocks that jump, logs without a reader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "faults/fault_run.h"

namespace trireme {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

int CountOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(Disk, FullWhileItSavesCostsASaveAndNotTheRun) {
  // Shards of 300 kB do not fit into files of 200 kB; ledgers do.
  const FaultRun run({"model.hidden=128", "train.steps=6", "checkpoint.every=6"});
  const Outcome outcome = run.Wait(run.Start({}, {"prlimit", "--fsize=200000", "--"}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(CountOf(outcome.output, "checkpoint of step 6 failed"), 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("File too large"));
  EXPECT_EQ(run.LoggedStep(), 6);
  EXPECT_FALSE(std::filesystem::exists(run.folder() + "/checkpoints/step-000006.tmp"));
}

TEST(Disk, AFolderThatCannotBeWrittenCostsSavesAndNotTheRun) {
  const FaultRun run({"train.steps=6", "checkpoint.every=6"});
  std::filesystem::create_directories(run.folder());
  std::ofstream(run.folder() + "/checkpoints") << "a file in the way";
  const Outcome outcome = run.Run();
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(CountOf(outcome.output, "checkpoint of step 6 failed"), 1) << outcome.output;
  EXPECT_EQ(run.LoggedStep(), 6);
}

TEST(Disk, ThatHasBecomeReadOnlyCostsSavesAndNotTheRun) {
  const FaultRun run({"train.steps=12", "checkpoint.every=6"});
  EXPECT_EQ(run.Run({"--steps", "6"}).code, 0);
  const Outcome outcome = run.Wait(
      run.Start({}, {"env", "LD_PRELOAD=" TRIREME_SHIM, "TRIREME_SHIM_READ_ONLY=" + run.folder() + "/checkpoints/"}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("resumed after step 6"));
  EXPECT_EQ(CountOf(outcome.output, "checkpoint of step 12 failed"), 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("Read-only file system"));
  EXPECT_EQ(run.LoggedStep(), 12);
  EXPECT_EQ(run.SavedStep(), 6);
  EXPECT_EQ(run.Program({"checkpoint", "verify", run.folder()}).code, 0);
}

TEST(Memory, ThatIsShortCostsASaveAndNotTheRun) {
  // A rank's copy of its state takes some megabytes in one block; nothing else asks for that much.
  const FaultRun run({"model.hidden=512", "train.steps=6", "checkpoint.every=6"});
  const Outcome outcome =
      run.Wait(run.Start({}, {"env", "LD_PRELOAD=" TRIREME_SHIM, "TRIREME_SHIM_LARGEST_BLOCK=3000000"}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(CountOf(outcome.output, "checkpoint of step 6 failed"), 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("bytes of memory left for a copy of the state; training goes on"));
  EXPECT_EQ(run.LoggedStep(), 6);
  EXPECT_EQ(run.SavedStep(), -1);
}

TEST(Disk, ThatLosesTheWholeFolderCostsNothingButIt) {
  const FaultRun run({"train.steps=1000000", "checkpoint.every=0"});
  const pid_t process = run.Start();
  run.AwaitStep(3);
  RemoveAtOnce(run.folder());
  std::this_thread::sleep_for(milliseconds(300));
  kill(process, SIGTERM);
  const Outcome outcome = run.Wait(process);
  EXPECT_EQ(outcome.code, 3) << outcome.output;
  EXPECT_EQ(run.Program({"checkpoint", "verify", run.folder()}).code, 0);
}

TEST(Disk, ThatLosesTheFolderAgainAndAgainWhileItSavesCostsSavesAndHoldsNobodyUp) {
  const FaultRun run({"train.steps=1000000", "checkpoint.every=2"});
  const pid_t process = run.Start();
  run.AwaitStep(3);
  RemoveAgainAndAgain(run.folder());
  kill(process, SIGTERM);
  const Outcome outcome = run.Wait(process);
  EXPECT_EQ(outcome.code, 3) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("removed"));
  EXPECT_EQ(run.Program({"checkpoint", "verify", run.folder()}).code, 0);
}

TEST(Disk, ThatIsSlowHoldsUpSavesAndNobodyIsAccused) {
  const FaultRun run({"train.steps=8", "checkpoint.every=4"});
  const Outcome outcome = run.Wait(run.Start({"--supervise", "--stall-seconds", "1.5"},
                                             {"env", "LD_PRELOAD=" TRIREME_SHIM, "TRIREME_SHIM_SYNC_MS=1000"}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, Not(HasSubstr("supervisor:")));
}

TEST(Clock, ThatJumpsByDaysChangesNothing) {
  const FaultRun run({"train.steps=200", "checkpoint.every=50"});
  const Outcome outcome = run.Wait(
      run.Start({"--supervise", "--stall-seconds", "20"}, {"env", "LD_PRELOAD=" TRIREME_SHIM, "TRIREME_SHIM_CLOCK=1"}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, Not(HasSubstr("supervisor:")));
  EXPECT_EQ(run.Digest(), run.UntouchedDigest());
}

TEST(Streams, AReaderThatDoesNotReadHoldsNobodyUp) {
  const FaultRun run({"train.steps=2000", "checkpoint.every=0"});
  // The pipe's reader sleeps; 2,000 lines are far more than a pipe holds.
  const Outcome outcome =
      run.Wait(run.Start({}, {"sh", "-c", "mkfifo $0; sleep 100 < $0 & \"$@\" > $0; code=$?; kill $!; exit $code",
                              run.recipe() + ".pipe"}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(run.LoggedStep(), 2000);
}

TEST(Streams, AReaderThatGoesAwayEndsNothing) {
  const FaultRun run;
  const Outcome outcome = run.Wait(run.Start({}, {"sh", "-c", "\"$@\" | true", "sh"}));
  EXPECT_EQ(run.LoggedStep(), 12) << outcome.output;
}

TEST(Streams, ClosedOnesTakeNoFilesNumber) {
  const FaultRun run;
  const Outcome outcome = run.Wait(run.Start({}, {"sh", "-c", "exec \"$@\" <&- >&- 2>&-", "sh"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(run.Program({"checkpoint", "verify", run.folder()}).code, 0);
  EXPECT_EQ(run.Program({"diagnose", run.folder()}).code, 0);
}

TEST(Handles, ExhaustedWhileItSavesCostASaveAndNotTheRun) {
  const FaultRun run({"train.steps=1000000", "checkpoint.every=0"});
  const pid_t process = run.Start();
  run.AwaitStep(2);
  rlimit before{};
  ASSERT_EQ(prlimit(process, RLIMIT_NOFILE, nullptr, &before), 0);
  const rlimit few{.rlim_cur = 3, .rlim_max = before.rlim_max};
  ASSERT_EQ(prlimit(process, RLIMIT_NOFILE, &few, nullptr), 0);
  kill(process, SIGUSR1);
  const std::int64_t asked = run.LoggedStep();
  run.AwaitStep(asked + 50);
  EXPECT_EQ(run.SavedStep(), -1);
  ASSERT_EQ(prlimit(process, RLIMIT_NOFILE, &before, nullptr), 0);
  kill(process, SIGTERM);
  const Outcome outcome = run.Wait(process);
  EXPECT_EQ(outcome.code, 3) << outcome.output;
  EXPECT_EQ(CountOf(outcome.output, "Too many open files"), 1) << outcome.output;
  EXPECT_EQ(run.SavedStep(), run.LoggedStep());
}

}  // namespace
}  // namespace trireme
