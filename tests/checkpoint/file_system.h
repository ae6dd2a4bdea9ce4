// A file system that is slow, refuses or fails, for tests of what reads and writes a run's folder. A program that links
// file_system.cc stands between its libraries and the C library: calls on files below one folder are counted, delayed
// and made to fail as the test says. Everything else passes.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::test {

// Calls that a test tells apart. kOpen: every open for reading or writing.
enum class FileCall : std::uint8_t { kOpen, kRead, kWrite, kSync, kRename, kMakeFolder, kLock };
inline constexpr int kFileCalls = 7;

struct FileFault {
  FileCall call = FileCall::kOpen;
  int error = 0;          // errno; 0: a short write or read, half of what was asked for
  int after = 0;          // calls that pass before the first that is struck
  int times = 1;          // calls that are struck; below 0: all
  std::string name = "";  // strikes files only whose path holds this
};

// The file system below `folder` while this object lives; one at a time.
class FileSystem {
 public:
  explicit FileSystem(std::string folder);
  ~FileSystem();
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  // Milliseconds that every open, rename and sync takes longer.
  void set_delay(int milliseconds);
  // flock() answers ENOLCK, as file systems without locks do.
  void set_locks(bool locks);
  // renameat2() with flags answers EINVAL, as file systems do that cannot exchange two names.
  void set_exchange(bool exchange);
  void Strike(const FileFault& fault);
  // How many calls were struck so far.
  int struck() const;

  // Calls so far: of all threads, and of the calling thread.
  std::int64_t calls(FileCall call) const;
  static std::int64_t CallsOfThisThread(FileCall call);
  // The most that any one thread has made since it began.
  std::int64_t most_of_a_thread(FileCall call) const;
};

}  // namespace trireme::test
