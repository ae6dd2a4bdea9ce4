// What a power cut leaves of a save: this program puts itself between the saver and the system, and before every call
// that changes the disk builds what would be there if the power went now. Two disks are imagined: one that keeps only
// names whose folder was synced, one that keeps all names; both keep only contents that were synced.
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "base/durable_file.h"
#include "base/error.h"
#include "checkpoint/saved_world.h"
#include "checkpoint/tools/reports.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

template <typename Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

// The disk below one folder. The calls of the C library below report to the one that lives.
class ImaginedDisk {
 public:
  explicit ImaginedDisk(std::string folder) : folder_(std::move(folder)) {
    KeepAll(folder_);
    current = this;
  }
  ~ImaginedDisk() { current = nullptr; }
  ImaginedDisk(const ImaginedDisk&) = delete;
  ImaginedDisk& operator=(const ImaginedDisk&) = delete;

  // Called before each call that changes the disk, and never from within itself.
  std::function<void()> before_change;
  // An error for one of the coming calls of that name; 0: none.
  std::string failing_call;
  int failing_errno = 0;
  int calls_until_failure = 0;

  // True when the call shall fail with errno.
  bool Change(const char* call) {
    if (busy_) {
      return false;
    }
    busy_ = true;
    // What is written changes nothing until it is synced.
    if (before_change && std::string_view(call) != "pwrite") {
      before_change();
    }
    busy_ = false;
    if (failing_call == call && calls_until_failure-- == 0) {
      errno = failing_errno;
      return true;
    }
    return false;
  }

  void Created(const std::string& path) { contents_.erase(InodeOf(path)); }

  void Synced(int file) {
    if (busy_) {
      return;
    }
    busy_ = true;
    std::error_code error;
    const std::string path = fs::read_symlink("/proc/self/fd/" + std::to_string(file), error).string();
    Keep(path);
    busy_ = false;
  }

  // Builds at `to` what the disk holds.
  void Restore(const std::string& to, bool all_names) const { RestoreFolder(folder_, to, all_names); }

  static ImaginedDisk* current;

 private:
  struct Name {
    std::string name;
    ino_t inode = 0;
    bool is_folder = false;
    bool operator<(const Name& other) const { return name < other.name; }
  };

  static ino_t InodeOf(const std::string& path) {
    struct stat about {};
    return stat(path.c_str(), &about) == 0 ? about.st_ino : 0;
  }
  static std::set<Name> NamesIn(const std::string& path) {
    std::set<Name> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(path, error)) {
      names.insert({entry.path().filename().string(), InodeOf(entry.path().string()), entry.is_directory()});
    }
    return names;
  }
  void Keep(const std::string& path) {
    if (fs::is_directory(path)) {
      names_[InodeOf(path)] = NamesIn(path);
    } else {
      contents_[InodeOf(path)] = ReadBytes(path);
    }
  }
  void KeepAll(const std::string& path) {
    Keep(path);
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      Keep(entry.path().string());
    }
  }
  void RestoreFolder(const std::string& from, const std::string& to, bool all_names) const {
    RestoreNames(all_names ? NamesIn(from) : KeptNames(InodeOf(from)), from, to, all_names);
  }
  std::set<Name> KeptNames(ino_t folder) const {
    const auto kept = names_.find(folder);
    return kept == names_.end() ? std::set<Name>{} : kept->second;
  }
  void RestoreNames(const std::set<Name>& names, const std::string& from, const std::string& to, bool all_names) const {
    fs::create_directories(to);
    for (const Name& each : names) {
      const std::string target = to + "/" + each.name;
      if (each.is_folder) {
        // A folder that was renamed since keeps what was synced in it.
        RestoreNames(all_names ? NamesIn(from + "/" + each.name) : KeptNames(each.inode), from + "/" + each.name,
                     target, all_names);
      } else {
        const auto kept = contents_.find(each.inode);
        WriteBytes(target, kept == contents_.end() ? "" : kept->second);
      }
    }
  }

  std::string folder_;
  bool busy_ = false;
  std::map<ino_t, std::set<Name>> names_;
  std::map<ino_t, std::string> contents_;
};

ImaginedDisk* ImaginedDisk::current = nullptr;

bool Changes(const char* call) { return ImaginedDisk::current != nullptr && ImaginedDisk::current->Change(call); }

}  // namespace
}  // namespace trireme

// The program's own definitions come before those of the C library, for every library in it.
extern "C" {

int open(const char* path, int flags, ...) {
  static const auto real = trireme::Real<int (*)(const char*, int, mode_t)>("open");
  if ((flags & O_CREAT) != 0 && trireme::Changes("open")) {
    return -1;
  }
  const int file = real(path, flags, 0644);
  if ((flags & O_EXCL) != 0 && file >= 0 && trireme::ImaginedDisk::current != nullptr) {
    trireme::ImaginedDisk::current->Created(path);
  }
  return file;
}

ssize_t pwrite(int file, const void* bytes, size_t count, off_t offset) {
  static const auto real = trireme::Real<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  return trireme::Changes("pwrite") ? -1 : real(file, bytes, count, offset);
}

int fsync(int file) {
  static const auto real = trireme::Real<int (*)(int)>("fsync");
  if (trireme::Changes("fsync")) {
    return -1;
  }
  const int result = real(file);
  if (trireme::ImaginedDisk::current != nullptr) {
    trireme::ImaginedDisk::current->Synced(file);
  }
  return result;
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = trireme::Real<int (*)(const char*, const char*)>("rename");
  return trireme::Changes("rename") ? -1 : real(from, to);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto real = trireme::Real<int (*)(const char*, mode_t)>("mkdir");
  return trireme::Changes("mkdir") ? -1 : real(path, mode);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  static const auto real = trireme::Real<int (*)(int, const char*, int)>("unlinkat");
  return trireme::Changes("unlinkat") ? -1 : real(folder, path, flags);
}
}

namespace trireme {
namespace {

constexpr int kRanks = 2;

class PowerLoss : public testing::Test {
 protected:
  PowerLoss() : table_(TinyModel("gpt2")) {
    SaveWorld(run_.path(), table_, DataRanks(kRanks), 1);
    SaveWorld(run_.path(), table_, DataRanks(kRanks), 2);
  }

  // As the saver's threads do it, one after another.
  void SaveAndPrune(std::int64_t step) {
    SaveTask task{.folder = run_.path(), .step = step, .ranks = kRanks};
    for (task.rank = kRanks - 1; task.rank >= 0; --task.rank) {
      WriteShard(task, Views(SlicesOfRank(table_, DataRanks(kRanks), static_cast<int>(task.rank), step)));
    }
    task.rank = 0;
    CommitCheckpoint(task, StateAt(table_.config(), step), {.seconds = 0});
    committed_ = step;
    PruneCheckpoints(run_.path(), 2);
  }

  // The newest of what would be left now must be good, and no older than the last that was promised.
  void CutPower(const ImaginedDisk& disk) {
    for (const bool all_names : {false, true}) {
      const TestFolder left;
      disk.Restore(left / "checkpoints", all_names);
      std::vector<std::string> refused;
      const auto found = FindNewest(left / "checkpoints", INT64_MAX, &refused);
      ASSERT_TRUE(found.has_value()) << "cut " << cuts_;
      const std::int64_t step = found->checkpoint.step;
      EXPECT_TRUE(refused.empty()) << "cut " << cuts_ << ": a torn save looks like a checkpoint: " << refused.front();
      EXPECT_GE(step, committed_) << "cut " << cuts_;
      EXPECT_LE(step, committed_ + 1) << "cut " << cuts_;
      EXPECT_EQ(WrongValues(CheckpointReader(found->checkpoint.path), table_, {}, step), 0) << "cut " << cuts_;
      ++cuts_;
    }
  }

  ParameterTable table_;
  TestFolder run_;
  std::int64_t committed_ = 2;
  int cuts_ = 0;
};

TEST_F(PowerLoss, AtAnyCallOfASaveLeavesAGoodCheckpoint) {
  ImaginedDisk disk(run_.path());
  disk.before_change = [&] { CutPower(disk); };
  SaveAndPrune(3);
  SaveAndPrune(4);
  CutPower(disk);
  EXPECT_GT(cuts_, 50) << "the calls did not come by here";
  std::printf("score: %d power cuts, all left a good checkpoint\n", cuts_);
}

TEST_F(PowerLoss, ADiskThatFailsOnceLeavesOlderCheckpointsAndAClearReason) {
  struct Failure {
    const char* call;
    int reason;
    const char* text;
  };
  int failures = 0;
  for (const Failure& failure :
       {Failure{"pwrite", ENOSPC, "No space left on device"}, Failure{"pwrite", EIO, "Input/output error"},
        Failure{"fsync", EIO, "Input/output error"}, Failure{"open", EACCES, "Permission denied"},
        Failure{"open", EMFILE, "Too many open"}, Failure{"rename", EROFS, "Read-only file system"}}) {
    for (int after = 0; after < 3; ++after) {
      std::vector<std::string> messages;
      {
        ImaginedDisk disk(run_.path());
        disk.failing_call = failure.call;
        disk.failing_errno = failure.reason;
        disk.calls_until_failure = after;
        CheckpointSaver saver(
            {.folder = run_.path(), .message = [&](const std::string& text) { messages.push_back(text); }});
        const auto owned = SlicesOfRank(table_, {}, 0, 3);
        saver.StartSave(StateAt(table_.config(), 3), Views(owned));
        saver.Wait();
      }
      if (messages.empty()) {
        // A save has fewer calls of that name than `after`.
        EXPECT_EQ(FindNewest(run_.path())->checkpoint.step, 3);
        RemoveTree(run_ / StepFolderName(3));
        continue;
      }
      ++failures;
      ASSERT_EQ(messages.size(), 1U) << failure.call;
      EXPECT_THAT(messages[0], testing::HasSubstr(failure.text));
      EXPECT_THAT(messages[0], testing::HasSubstr("checkpoint of step 3 failed"));
      EXPECT_FALSE(fs::exists(run_ / "step-000003.tmp")) << failure.call << " " << after;
      const auto newest = FindNewest(run_.path());
      ASSERT_TRUE(newest.has_value());
      EXPECT_EQ(WrongValues(CheckpointReader(run_ / StepFolderName(2)), table_, {}, 2), 0);
      RemoveTree(run_ / StepFolderName(3));
    }
  }
  EXPECT_GE(failures, 10);
  std::printf("score: %d failing calls, each one message and nothing lost\n", failures);
}

}  // namespace
}  // namespace trireme
