#include "comm/ledger.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/random.h"
#include "comm/ledger_file.h"
#include "comm/rank_runner.h"

namespace trireme {
namespace {

class LedgerFile : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path(int rank) const { return folder_ + "/" + LedgerName(rank); }

  std::string folder_ = (std::filesystem::temp_directory_path() / fmt::format("trireme-ledger-{}", getpid())).string();
  ParallelLayout layout_ = [] {
    ParallelLayout layout;
    layout.data = 4;
    return layout;
  }();
};

const CollectiveCall kSum = {.kind = CollectiveKind::kAllReduce, .dtype = DType::kFloat32, .count = 128};

TEST_F(LedgerFile, TellsTheCallThatHasNotEnded) {
  Ledger ledger(folder_, 3, layout_);
  ledger.SetPhase(7, "reduce");
  ledger.Started("data", 0, kSum);
  ledger.Ended("data", 0);
  ledger.Started("data", 1, kSum);
  const RankRecord record = ReadLedger(Path(3));
  EXPECT_EQ(record.rank, 3);
  EXPECT_EQ(record.world(), 4);
  EXPECT_EQ(record.pid, getpid());
  EXPECT_EQ(record.step, 7);
  EXPECT_EQ(record.phase, "reduce");
  ASSERT_EQ(record.calls.size(), 2U);
  EXPECT_GE(record.calls[0].ended_ns, record.calls[0].started_ns);
  ASSERT_NE(record.InCall(), nullptr);
  EXPECT_EQ(record.InCall()->sequence, 1);
  EXPECT_EQ(record.InCall()->call, kSum);
  EXPECT_EQ(record.InCall()->phase, "reduce");
  ASSERT_EQ(record.groups.size(), 1U);
  EXPECT_EQ(record.groups[0].started, 1);
  EXPECT_EQ(record.groups[0].ended, 0);
}

TEST_F(LedgerFile, KeepsACallOpenUntilTheDeviceHasEndedIt) {
  Ledger ledger(folder_, 0, layout_);
  std::vector<std::uint64_t> tickets;
  for (std::int64_t i = 0; i < 3; ++i) {
    ledger.Started("data", i, kSum);
    ledger.Enqueued("data", i, 1);
    tickets.push_back(ledger.last_ticket());
  }
  ledger.DeviceStarted(tickets[0]);
  ledger.DeviceEnded(tickets[0]);
  ledger.DeviceStarted(tickets[1]);
  RankRecord record = ReadLedger(Path(0));
  ASSERT_NE(record.InCall(), nullptr);
  EXPECT_EQ(record.InCall()->sequence, 1);
  EXPECT_EQ(record.InCall()->stream, 1);
  EXPECT_NE(record.InCall()->running_ns, 0);
  EXPECT_EQ(record.groups[0].started, 2);
  EXPECT_EQ(record.groups[0].ended, 0);
  EXPECT_EQ(record.calls[2].running_ns, 0);
  // A call that the rank's own thread is in comes first.
  ledger.Started("world", 0, kSum);
  EXPECT_EQ(ReadLedger(Path(0)).InCall()->group, "world");
  ledger.Ended("world", 0);
  ledger.DeviceEnded(tickets[1]);
  ledger.DeviceEnded(tickets[2]);
  ledger.DeviceEnded(tickets[2] + kLedgerRecords);  // of a record that newer calls have taken
  record = ReadLedger(Path(0));
  EXPECT_EQ(record.InCall(), nullptr);
  EXPECT_EQ(record.groups[0].ended, 2);
}

TEST_F(LedgerFile, KeepsTheNewestCallsInOrderWhenTheRingIsFull) {
  Ledger ledger(folder_, 0, layout_);
  for (std::int64_t i = 0; i < kLedgerRecords + 100; ++i) {
    ledger.Started("world", i, kSum);
    ledger.Ended("world", i);
  }
  const RankRecord record = ReadLedger(Path(0));
  ASSERT_EQ(record.calls.size(), static_cast<std::size_t>(kLedgerRecords));
  EXPECT_EQ(record.calls.front().sequence, 100);
  EXPECT_EQ(record.calls.back().sequence, kLedgerRecords + 99);
  EXPECT_EQ(record.InCall(), nullptr);
}

TEST_F(LedgerFile, OutlivesAProcessThatIsKilled) {
  const pid_t child = fork();
  if (child == 0) {
    Ledger ledger(folder_, 1, layout_);
    ledger.SetPhase(3, "forward");
    ledger.Started("tensor", 9, kSum);
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  const RankRecord record = ReadLedger(Path(1));
  EXPECT_EQ(record.pid, child);
  EXPECT_EQ(record.end, LedgerEnd::kRunning);
  ASSERT_NE(record.InCall(), nullptr);
  EXPECT_EQ(record.InCall()->sequence, 9);
  EXPECT_EQ(ProcessStart(child), 0U);
}

TEST_F(LedgerFile, EveryTornOrFlippedRecordIsLeftOut) {
  {
    Ledger ledger(folder_, 0, layout_);
    for (std::int64_t i = 0; i < 10; ++i) {
      ledger.Started("world", i, kSum);
      ledger.Ended("world", i);
    }
  }
  std::fstream file(Path(0), std::ios::in | std::ios::out | std::ios::binary);
  constexpr std::streamoff kRecordBytes = sizeof(LedgerFileRecord);
  const std::streamoff records =
      static_cast<std::streamoff>(std::filesystem::file_size(Path(0))) - kLedgerRecords * kRecordBytes;
  // The count of the fifth record.
  file.seekp(records + 4 * kRecordBytes + 16);
  file.put('\x55');
  file.close();
  const RankRecord record = ReadLedger(Path(0));
  EXPECT_EQ(record.torn, 1);
  EXPECT_EQ(record.calls.size(), 9U);
}

TEST_F(LedgerFile, AnyBytesAtAllAreReadOrRefused) {
  { Ledger(folder_, 0, layout_).Started("world", 0, kSum); }
  const auto size = std::filesystem::file_size(Path(0));
  std::ifstream whole(Path(0), std::ios::binary);
  std::string bytes(size, '\0');
  whole.read(bytes.data(), static_cast<std::streamsize>(size));
  int refused = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    std::string damaged = bytes;
    for (std::uint64_t j = 0; j < 20; ++j) {
      damaged[RandomBelow(i, j, 1500)] = static_cast<char>(RandomBelow(i, j + 100, 256));
    }
    damaged.resize(i % 3 == 0 ? RandomBelow(i, 999, size) : size);
    std::ofstream(Path(0), std::ios::binary) << damaged;
    try {
      const RankRecord record = ReadLedger(Path(0));
      EXPECT_LE(record.calls.size(), static_cast<std::size_t>(kLedgerRecords));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST_F(LedgerFile, SeesEveryCollectiveOfTheGroupsMadeAfterIt) {
  RunThreadRanks(4, {.kind = "cpu"}, [&](RankContext& context) {
    Ledger ledger(folder_, context.world.rank(), layout_);
    context.world.set_observer(&ledger);
    const std::unique_ptr<Communicator> pair = context.world.Split("data", context.world.rank() / 2, 0);
    pair->Barrier();
    context.world.Barrier();
    context.world.set_observer(nullptr);
    ledger.Finish(LedgerEnd::kFinished, "");
  });
  ASSERT_EQ(ListLedgers(folder_).size(), 4U);
  for (const std::string& path : ListLedgers(folder_)) {
    const RankRecord record = ReadLedger(path);
    EXPECT_EQ(record.end, LedgerEnd::kFinished);
    ASSERT_GE(record.calls.size(), 2U);
    EXPECT_EQ(record.calls[record.calls.size() - 2].group, "data");
    EXPECT_EQ(record.calls.back().group, "world");
  }
}

TEST_F(LedgerFile, RemovesThoseOfRanksThatTheRunDoesNotHave) {
  ParallelLayout large;
  large.data = 8;
  { Ledger ledger(folder_, 7, large); }
  Ledger ledger(folder_, 0, layout_);
  EXPECT_EQ(ListLedgers(folder_).size(), 1U);
}

}  // namespace
}  // namespace trireme
