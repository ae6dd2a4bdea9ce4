// A step is saved again on a file system that cannot exchange two names, and the process is killed before or after each
// of its renames. This program stands between the libraries and the C library's rename.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "checkpoint/saved_world.h"

namespace {

// In the child alone: renames until it is killed, and on which side of the one that counts; below 0: never.
int renames_left = -1;
bool kill_after = false;
bool no_exchange = false;

int Rename(const char* from, const char* to, unsigned flags) {
  const bool last = renames_left >= 0 && renames_left-- == 0;
  if (last && !kill_after) {
    raise(SIGKILL);
  }
  const long result = syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags);
  if (last) {
    raise(SIGKILL);
  }
  return static_cast<int>(result);
}

}  // namespace

extern "C" {
int rename(const char* from, const char* to) noexcept { return Rename(from, to, 0); }
int renameat2(int /*from_folder*/, const char* from, int /*to_folder*/, const char* to, unsigned flags) noexcept {
  if (no_exchange && flags != 0) {
    errno = EINVAL;
    return -1;
  }
  return Rename(from, to, flags);
}
}

namespace trireme {
namespace {

// Saves step 2 again; true when the process lived to the end.
bool SaveAgain(const TestFolder& folder, const ParameterTable& table, int kill_at, bool after) {
  const pid_t child = fork();
  if (child == 0) {
    no_exchange = true;
    renames_left = kill_at;
    kill_after = after;
    SaveWorld(folder.path(), table, DataRanks(2), 2);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status);
}

TEST(ReplacedCheckpoint, IsNeverLostWhereNamesCannotBeExchanged) {
  const ParameterTable table(TinyModel("gpt2"));
  for (const bool after : {false, true}) {
    bool ended = false;
    for (int kill_at = 0; !ended; ++kill_at) {
      const TestFolder folder;
      SaveWorld(folder.path(), table, {}, 2);
      ended = SaveAgain(folder, table, kill_at, after);
      RemoveUnfinished(folder.path());  // as the next start does
      const auto found = FindNewest(folder.path());
      ASSERT_TRUE(found.has_value()) << "killed " << (after ? "after" : "before") << " rename " << kill_at;
      EXPECT_EQ(found->checkpoint.step, 2);
      EXPECT_EQ(WrongValues(CheckpointReader(found->checkpoint.path), table, {}, 2), 0);
      ASSERT_LT(kill_at, 20) << "the save never ends";
      // Two shards, an attempt that finds the name taken, the old folder's name, the new one's.
      EXPECT_TRUE(!ended || kill_at == 5) << kill_at;
    }
    const TestFolder folder;
    SaveWorld(folder.path(), table, {}, 2);
    ASSERT_TRUE(SaveAgain(folder, table, -1, after));
    EXPECT_EQ(CheckpointReader(folder / "step-000002").manifest().shards.size(), 2U) << "the new one is there";
  }
}

}  // namespace
}  // namespace trireme
