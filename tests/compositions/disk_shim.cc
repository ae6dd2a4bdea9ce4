// Loaded into the program by tests (LD_PRELOAD): counts the calls that change a folder, and makes one of them fail or
// end the process. The environment says what:
//   TRIREME_DISK_FOLDER  absolute; calls on anything below it count
//   TRIREME_DISK_FAULT   full | eio | kill; without it calls are only counted
//   TRIREME_DISK_CALL    the number of a call, from 1: from this one on calls are struck that the fault meets
//   TRIREME_DISK_CALLS   so many calls are struck (1)
//   TRIREME_DISK_REPORT  a file outside the folder that gets a line for each call that was struck, and at the end one
//                        with the count of all calls
// A full disk refuses what takes room; an I/O error also meets syncs, renames and reads back.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <string_view>

namespace {

template <typename Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

struct Orders {
  std::string_view folder;
  std::string_view fault;
  long first = 0;
  long count = 1;
  const char* report = nullptr;
};

const char* Text(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

const Orders& TheOrders() {
  static const Orders orders = {.folder = Text("TRIREME_DISK_FOLDER"),
                                .fault = Text("TRIREME_DISK_FAULT"),
                                .first = atol(Text("TRIREME_DISK_CALL")),
                                .count = *Text("TRIREME_DISK_CALLS") == 0 ? 1 : atol(Text("TRIREME_DISK_CALLS")),
                                .report = getenv("TRIREME_DISK_REPORT")};
  return orders;
}

std::atomic<long> calls = 0;
std::atomic<long> strikes = 0;

// Without the functions below, which would count it.
void Report(const char* line, int length) {
  if (TheOrders().report == nullptr) {
    return;
  }
  const long file = syscall(SYS_openat, AT_FDCWD, TheOrders().report, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file >= 0) {
    syscall(SYS_write, file, line, length);
    syscall(SYS_close, file);
  }
}

bool Below(const char* path) {
  const std::string_view folder = TheOrders().folder;
  return !folder.empty() && path != nullptr && std::string_view(path).starts_with(folder);
}

bool Below(int file) {
  std::array<char, 64> link{};
  std::array<char, 4096> path{};
  snprintf(link.data(), link.size(), "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link.data(), path.data(), path.size() - 1);
  return length > 0 && Below(path.data());
}

bool Below(int folder, const char* path) { return *path == '/' || folder == AT_FDCWD ? Below(path) : Below(folder); }

enum class Need { kRoom, kDisk, kNothing };  // what a call asks of the disk: room, that it works, or neither

// Counts a call on something below the folder; true when it shall fail, with errno set.
bool Struck(const char* name, Need need) {
  const Orders& orders = TheOrders();
  if (++calls < orders.first || orders.fault.empty()) {
    return false;
  }
  const bool kills = orders.fault == "kill";
  const bool full = orders.fault == "full";
  if (!kills && (need == Need::kNothing || (full && need != Need::kRoom))) {
    return false;
  }
  if (++strikes > orders.count) {
    return false;
  }
  std::array<char, 64> line{};
  Report(line.data(), snprintf(line.data(), line.size(), "struck %s\n", name));
  if (kills) {
    raise(SIGKILL);
  }
  errno = full ? ENOSPC : EIO;
  return true;
}

struct AtTheEnd {
  AtTheEnd() = default;
  AtTheEnd(const AtTheEnd&) = delete;
  AtTheEnd& operator=(const AtTheEnd&) = delete;
  ~AtTheEnd() {
    std::array<char, 64> line{};
    Report(line.data(), snprintf(line.data(), line.size(), "calls %ld\n", calls.load()));
  }
} at_the_end;

constexpr Need NeedOf(int flags) { return (flags & O_CREAT) != 0 ? Need::kRoom : Need::kDisk; }

mode_t ModeIn(int flags, va_list more) { return (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0; }

}  // namespace

extern "C" int open(const char* path, int flags, ...) {
  static const auto real = Real<int (*)(const char*, int, ...)>("open");
  va_list more;
  va_start(more, flags);
  const mode_t mode = ModeIn(flags, more);
  va_end(more);
  const bool changes = (flags & O_ACCMODE) != O_RDONLY;
  return changes && Below(path) && Struck("open", NeedOf(flags)) ? -1 : real(path, flags, mode);
}

extern "C" int open64(const char* path, int flags, ...) {
  static const auto real = Real<int (*)(const char*, int, ...)>("open64");
  va_list more;
  va_start(more, flags);
  const mode_t mode = ModeIn(flags, more);
  va_end(more);
  const bool changes = (flags & O_ACCMODE) != O_RDONLY;
  return changes && Below(path) && Struck("open64", NeedOf(flags)) ? -1 : real(path, flags, mode);
}

extern "C" int openat(int folder, const char* path, int flags, ...) {
  static const auto real = Real<int (*)(int, const char*, int, ...)>("openat");
  va_list more;
  va_start(more, flags);
  const mode_t mode = ModeIn(flags, more);
  va_end(more);
  const bool changes = (flags & O_ACCMODE) != O_RDONLY;
  return changes && Below(folder, path) && Struck("openat", NeedOf(flags)) ? -1 : real(folder, path, flags, mode);
}

extern "C" ssize_t write(int file, const void* bytes, size_t count) {
  static const auto real = Real<ssize_t (*)(int, const void*, size_t)>("write");
  return Below(file) && Struck("write", Need::kRoom) ? -1 : real(file, bytes, count);
}

extern "C" ssize_t writev(int file, const iovec* parts, int count) {
  static const auto real = Real<ssize_t (*)(int, const iovec*, int)>("writev");
  return Below(file) && Struck("writev", Need::kRoom) ? -1 : real(file, parts, count);
}

extern "C" ssize_t pwrite(int file, const void* bytes, size_t count, off_t offset) {
  static const auto real = Real<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  return Below(file) && Struck("pwrite", Need::kRoom) ? -1 : real(file, bytes, count, offset);
}

extern "C" ssize_t pread(int file, void* bytes, size_t count, off_t offset) {
  static const auto real = Real<ssize_t (*)(int, void*, size_t, off_t)>("pread");
  return Below(file) && Struck("pread", Need::kDisk) ? -1 : real(file, bytes, count, offset);
}

extern "C" int ftruncate(int file, off_t length) {
  static const auto real = Real<int (*)(int, off_t)>("ftruncate");
  return Below(file) && Struck("ftruncate", Need::kRoom) ? -1 : real(file, length);
}

extern "C" int fsync(int file) {
  static const auto real = Real<int (*)(int)>("fsync");
  return Below(file) && Struck("fsync", Need::kDisk) ? -1 : real(file);
}

extern "C" int fdatasync(int file) {
  static const auto real = Real<int (*)(int)>("fdatasync");
  return Below(file) && Struck("fdatasync", Need::kDisk) ? -1 : real(file);
}

extern "C" int rename(const char* from, const char* to) {
  static const auto real = Real<int (*)(const char*, const char*)>("rename");
  return Below(to) && Struck("rename", Need::kDisk) ? -1 : real(from, to);
}

extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  static const auto real = Real<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  return Below(to_folder, to) && Struck("renameat2", Need::kDisk) ? -1 : real(from_folder, from, to_folder, to, flags);
}

extern "C" int mkdir(const char* path, mode_t mode) {
  static const auto real = Real<int (*)(const char*, mode_t)>("mkdir");
  return Below(path) && Struck("mkdir", Need::kRoom) ? -1 : real(path, mode);
}

extern "C" int unlink(const char* path) {
  static const auto real = Real<int (*)(const char*)>("unlink");
  return Below(path) && Struck("unlink", Need::kNothing) ? -1 : real(path);
}

extern "C" int unlinkat(int folder, const char* path, int flags) {
  static const auto real = Real<int (*)(int, const char*, int)>("unlinkat");
  return Below(folder, path) && Struck("unlinkat", Need::kNothing) ? -1 : real(folder, path, flags);
}

extern "C" int close(int file) {
  static const auto real = Real<int (*)(int)>("close");
  if (Below(file)) {
    Struck("close", Need::kNothing);
  }
  return real(file);
}
