// What a machine does to a run: disks that fill up, clocks that jump, logs without a reader.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "comm/ledger.h"
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

// What makes a run give up at once when its last save fails.
constexpr const char* kNoWait = "checkpoint.final_save_wait=0";
constexpr int kUnsaved = 5;

TEST(Disk, FullWhileItSavesCostsASaveAndNotTheRun) {
  // Shards of 300 kB do not fit into files of 200 kB; ledgers do.
  const FaultRun run({"model.hidden=128", "train.steps=6", "checkpoint.every=6", kNoWait});
  const Outcome outcome = run.Wait(run.Start({}, {"prlimit", "--fsize=200000", "--"}));
  EXPECT_EQ(outcome.code, kUnsaved) << outcome.output;
  EXPECT_EQ(CountOf(outcome.output, "checkpoint of step 6 failed"), 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("File too large"));
  EXPECT_EQ(run.LoggedStep(), 6);
  EXPECT_FALSE(std::filesystem::exists(run.folder() + "/checkpoints/step-000006.tmp"));
}

TEST(Disk, AFolderThatCannotBeWrittenCostsSavesAndNotTheRun) {
  const FaultRun run({"train.steps=6", "checkpoint.every=6", kNoWait});
  std::filesystem::create_directories(run.folder());
  std::ofstream(run.folder() + "/checkpoints") << "a file in the way";
  const Outcome outcome = run.Run();
  EXPECT_EQ(outcome.code, kUnsaved) << outcome.output;
  EXPECT_EQ(CountOf(outcome.output, "checkpoint of step 6 failed"), 1) << outcome.output;
  EXPECT_EQ(run.LoggedStep(), 6);
}

TEST(Disk, ThatHasBecomeReadOnlyCostsSavesAndNotTheRun) {
  const FaultRun run({"train.steps=12", "checkpoint.every=6", kNoWait});
  EXPECT_EQ(run.Run({"--steps", "6"}).code, 0);
  const Outcome outcome = run.Wait(
      run.Start({}, {"env", "LD_PRELOAD=" TRIREME_SHIM, "TRIREME_SHIM_READ_ONLY=" + run.folder() + "/checkpoints/"}));
  EXPECT_EQ(outcome.code, kUnsaved) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("resumed after step 6"));
  EXPECT_EQ(CountOf(outcome.output, "checkpoint of step 12 failed"), 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("Read-only file system"));
  EXPECT_EQ(run.LoggedStep(), 12);
  EXPECT_EQ(run.SavedStep(), 6);
  EXPECT_EQ(run.Program({"checkpoint", "verify", run.folder()}).code, 0);
}

TEST(LastSave, WaitsForRoomOnTheDisk) {
  const FaultRun run({"train.steps=6", "checkpoint.every=0", "checkpoint.final_save_wait=1e6"});
  std::filesystem::create_directories(run.folder());
  std::ofstream(run.folder() + "/checkpoints") << "a file in the way";
  const pid_t process = run.Start();
  run.AwaitOutput("trying again for");
  std::filesystem::remove(run.folder() + "/checkpoints");
  const Outcome outcome = run.Wait(process);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("/checkpoints' needs "));
  EXPECT_EQ(run.SavedStep(), 6);
}

// A stop that was not saved exits 5, not 3; a request to stop ends the wait.
TEST(LastSave, IsGivenUpOnRequest) {
  const FaultRun run({"train.steps=1000000", "checkpoint.every=0", "checkpoint.final_save_wait=1e6"});
  std::filesystem::create_directories(run.folder());
  std::ofstream(run.folder() + "/checkpoints") << "a file in the way";
  const pid_t process = run.Start();
  run.AwaitStep(2);
  kill(process, SIGTERM);
  run.AwaitOutput("trying again for");
  kill(process, SIGTERM);
  const Outcome outcome = run.Wait(process);
  EXPECT_EQ(outcome.code, kUnsaved) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("gave up"));
}

TEST(LastSave, IsNotTriedBeyondTheJobsLimit) {
  const FaultRun run({"train.steps=6", "checkpoint.every=0", "checkpoint.final_save_wait=1e6"});
  std::filesystem::create_directories(run.folder());
  std::ofstream(run.folder() + "/checkpoints") << "a file in the way";
  const Outcome outcome = run.Run({"--walltime", "3"});
  EXPECT_EQ(outcome.code, kUnsaved) << outcome.output;
}

TEST(LastSave, ThatFailsIsNoReasonToStartTheJobAgain) {
  const FaultRun run({"model.hidden=128", "train.steps=6", "checkpoint.every=6", kNoWait});
  const Outcome outcome = run.Wait(run.Start({"--supervise"}, {"prlimit", "--fsize=200000", "--"}));
  EXPECT_EQ(outcome.code, kUnsaved) << outcome.output;
  EXPECT_THAT(outcome.output, Not(HasSubstr("starting the job again")));
}

TEST(Disk, TooSmallForTheRunsCheckpointsIsSaidAtTheStart) {
  const FaultRun run({"train.steps=6", "checkpoint.every=1"});
  const auto start = [&](const char* free) {
    return run.Wait(
        run.Start({}, {"env", "LD_PRELOAD=" TRIREME_SHIM, fmt::format("TRIREME_SHIM_FREE_BYTES={}", free)}));
  };
  const Outcome outcome = start("1000000000");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(CountOf(outcome.output, "checkpoints take "), 1) << outcome.output;
  EXPECT_THAT(outcome.output, Not(HasSubstr("warning: checkpoints")));
  std::filesystem::remove_all(run.folder());
  EXPECT_THAT(start("500000").output, HasSubstr("warning: checkpoints take "));
}

TEST(Disk, FullWhileItTrainsCostsNoRowOfMetrics) {
  const FaultRun run({"train.steps=1000000", "checkpoint.every=0"});
  const pid_t process = run.Start();
  run.AwaitStep(3);
  rlimit before{};
  ASSERT_EQ(prlimit(process, RLIMIT_FSIZE, nullptr, &before), 0);
  const rlimit full{.rlim_cur = 100, .rlim_max = before.rlim_max};
  ASSERT_EQ(prlimit(process, RLIMIT_FSIZE, &full, nullptr), 0);
  const auto step = [&] { return ReadLedger(run.folder() + "/flight/" + LedgerName(0), LedgerPart::kHead).step; };
  for (const std::int64_t before_full = step(); step() < before_full + 20;) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  const std::int64_t logged = run.LoggedStep();
  EXPECT_LT(logged + 15, step());
  ASSERT_EQ(prlimit(process, RLIMIT_FSIZE, &before, nullptr), 0);
  run.AwaitStep(logged + 20);
  kill(process, SIGTERM);
  EXPECT_EQ(run.Wait(process).code, 3);
  std::ifstream file(run.folder() + "/metrics.jsonl");
  std::int64_t rows = 0;
  for (std::string line; std::getline(file, line);) {
    ++rows;
    ASSERT_THAT(line, testing::StartsWith(fmt::format("{{\"step\":{},", rows)));
    ASSERT_THAT(line, testing::EndsWith("}"));
  }
  EXPECT_EQ(rows, run.SavedStep());
  std::ifstream events(run.folder() + "/events.jsonl");
  const std::string all{std::istreambuf_iterator<char>(events), {}};
  EXPECT_EQ(CountOf(all, "lines are kept in memory"), 1) << all;
}

TEST(Memory, ThatIsShortCostsASaveAndNotTheRun) {
  // A rank's copy of its state takes some megabytes in one block; nothing else asks for that much.
  const FaultRun run({"model.hidden=512", "train.steps=6", "checkpoint.every=6", kNoWait});
  const Outcome outcome =
      run.Wait(run.Start({}, {"env", "LD_PRELOAD=" TRIREME_SHIM, "TRIREME_SHIM_LARGEST_BLOCK=3000000"}));
  EXPECT_EQ(outcome.code, kUnsaved) << outcome.output;
  EXPECT_EQ(CountOf(outcome.output, "checkpoint of step 6 failed"), 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("bytes of memory left for a copy of the state; there is no older checkpoint"));
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
