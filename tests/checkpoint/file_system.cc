#include "checkpoint/file_system.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string_view>
#include <thread>

namespace trireme::test {
namespace {

struct Orders {
  std::mutex mutex;
  std::string folder;  // empty: none lives
  int delay = 0;
  bool locks = true;
  bool exchange = true;
  bool strikes = false;
  FileFault fault;
  int struck = 0;
  std::array<std::atomic<std::int64_t>, kFileCalls> calls{};
  std::array<std::atomic<std::int64_t>, kFileCalls> most{};
};

Orders& TheOrders() {
  static Orders orders;
  return orders;
}

thread_local std::array<std::int64_t, kFileCalls> calls_of_thread{};

std::string PathOf(int file) {
  if (TheOrders().folder.empty()) {
    return "";
  }
  std::array<char, 64> link{};
  std::array<char, 4096> path{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", file);
  const ssize_t length = ::readlink(link.data(), path.data(), path.size() - 1);
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : std::string();
}

bool Below(std::string_view path) {
  const std::string& folder = TheOrders().folder;
  return !folder.empty() && path.starts_with(folder);
}

enum class Verdict : std::uint8_t { kPass, kFail, kShort };

// Counts and delays a call on `path`; kFail: errno is set.
Verdict Judge(FileCall call, std::string_view path) {
  if (!Below(path)) {
    return Verdict::kPass;
  }
  Orders& orders = TheOrders();
  ++orders.calls[static_cast<std::size_t>(call)];
  const std::int64_t mine = ++calls_of_thread[static_cast<std::size_t>(call)];
  std::atomic<std::int64_t>& most = orders.most[static_cast<std::size_t>(call)];
  for (std::int64_t seen = most; seen < mine && !most.compare_exchange_weak(seen, mine);) {
  }
  if (orders.delay > 0 && (call == FileCall::kOpen || call == FileCall::kRename || call == FileCall::kSync)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(orders.delay));
  }
  if (call == FileCall::kLock && !orders.locks) {
    errno = ENOLCK;
    return Verdict::kFail;
  }
  const std::lock_guard lock(orders.mutex);
  FileFault& fault = orders.fault;
  if (!orders.strikes || fault.call != call || path.find(fault.name) == std::string_view::npos || fault.after-- > 0 ||
      fault.times == 0) {
    return Verdict::kPass;
  }
  fault.times -= fault.times > 0 ? 1 : 0;
  ++orders.struck;
  errno = fault.error;
  return fault.error == 0 ? Verdict::kShort : Verdict::kFail;
}

template <typename Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

FileSystem::FileSystem(std::string folder) {
  Orders& orders = TheOrders();
  for (auto& calls : orders.calls) {
    calls = 0;
  }
  for (auto& most : orders.most) {
    most = 0;
  }
  orders.delay = 0;
  orders.locks = orders.exchange = true;
  orders.strikes = false;
  orders.struck = 0;
  orders.folder = std::move(folder);
}
FileSystem::~FileSystem() { TheOrders().folder.clear(); }
void FileSystem::set_delay(int milliseconds) { TheOrders().delay = milliseconds; }
void FileSystem::set_locks(bool locks) { TheOrders().locks = locks; }
void FileSystem::set_exchange(bool exchange) { TheOrders().exchange = exchange; }
void FileSystem::Strike(const FileFault& fault) {
  const std::lock_guard lock(TheOrders().mutex);
  TheOrders().fault = fault;
  TheOrders().strikes = true;
  TheOrders().struck = 0;
}
int FileSystem::struck() const {
  const std::lock_guard lock(TheOrders().mutex);
  return TheOrders().struck;
}
std::int64_t FileSystem::calls(FileCall call) const { return TheOrders().calls[static_cast<std::size_t>(call)]; }
std::int64_t FileSystem::CallsOfThisThread(FileCall call) { return calls_of_thread[static_cast<std::size_t>(call)]; }

std::int64_t FileSystem::most_of_a_thread(FileCall call) const {
  return TheOrders().most[static_cast<std::size_t>(call)];
}

}  // namespace trireme::test

using trireme::test::FileCall;
using trireme::test::Judge;
using trireme::test::PathOf;
using trireme::test::Real;
using trireme::test::Verdict;

extern "C" {

int open(const char* path, int flags, ...) {
  static const auto real = Real<int (*)(const char*, int, ...)>("open");
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return Judge(FileCall::kOpen, path) == Verdict::kFail ? -1 : real(path, flags, mode);
}

ssize_t pread(int file, void* bytes, size_t count, off_t offset) {
  static const auto real = Real<ssize_t (*)(int, void*, size_t, off_t)>("pread");
  const Verdict verdict = Judge(FileCall::kRead, PathOf(file));
  return verdict == Verdict::kFail ? -1
                                   : real(file, bytes, verdict == Verdict::kShort ? (count + 1) / 2 : count, offset);
}

ssize_t read(int file, void* bytes, size_t count) {
  static const auto real = Real<ssize_t (*)(int, void*, size_t)>("read");
  const Verdict verdict = Judge(FileCall::kRead, PathOf(file));
  return verdict == Verdict::kFail ? -1 : real(file, bytes, verdict == Verdict::kShort ? (count + 1) / 2 : count);
}

ssize_t pwrite(int file, const void* bytes, size_t count, off_t offset) {
  static const auto real = Real<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  const Verdict verdict = Judge(FileCall::kWrite, PathOf(file));
  return verdict == Verdict::kFail ? -1
                                   : real(file, bytes, verdict == Verdict::kShort ? (count + 1) / 2 : count, offset);
}

ssize_t write(int file, const void* bytes, size_t count) {
  static const auto real = Real<ssize_t (*)(int, const void*, size_t)>("write");
  const Verdict verdict = Judge(FileCall::kWrite, PathOf(file));
  return verdict == Verdict::kFail ? -1 : real(file, bytes, verdict == Verdict::kShort ? (count + 1) / 2 : count);
}

int fsync(int file) {
  static const auto real = Real<int (*)(int)>("fsync");
  return Judge(FileCall::kSync, PathOf(file)) == Verdict::kFail ? -1 : real(file);
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = Real<int (*)(const char*, const char*)>("rename");
  return Judge(FileCall::kRename, to) == Verdict::kFail ? -1 : real(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  static const auto real = Real<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  if (flags != 0 && !trireme::test::TheOrders().exchange && trireme::test::Below(to)) {
    errno = EINVAL;
    return -1;
  }
  return Judge(FileCall::kRename, to) == Verdict::kFail ? -1 : real(from_folder, from, to_folder, to, flags);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto real = Real<int (*)(const char*, mode_t)>("mkdir");
  return Judge(FileCall::kMakeFolder, path) == Verdict::kFail ? -1 : real(path, mode);
}

int flock(int file, int operation) noexcept {
  static const auto real = Real<int (*)(int, int)>("flock");
  return Judge(FileCall::kLock, PathOf(file)) == Verdict::kFail ? -1 : real(file, operation);
}
}
