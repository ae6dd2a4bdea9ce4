// Loaded into the program by tests (LD_PRELOAD): a wall clock that jumps by a day back and forth with every look, syncs
// that take their time, a folder on a disk that has become read-only, disks with so many bytes free, or no memory for
// large blocks.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdlib>
#include <string_view>
#include <thread>

namespace {

template <typename Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool IsReadOnly(const char* path) {
  const char* const folder = std::getenv("TRIREME_SHIM_READ_ONLY");
  return folder != nullptr && std::string_view(path).starts_with(folder);
}

}  // namespace

extern "C" void* __libc_malloc(std::size_t bytes);

extern "C" void* malloc(std::size_t bytes) {
  const char* const most = std::getenv("TRIREME_SHIM_LARGEST_BLOCK");
  if (most != nullptr && bytes > std::strtoull(most, nullptr, 10)) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_malloc(bytes);
}

extern "C" int open(const char* path, int flags, ...) {
  static const auto real = Real<int (*)(const char*, int, ...)>("open");
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  if ((flags & O_ACCMODE) != O_RDONLY && IsReadOnly(path)) {
    errno = EROFS;
    return -1;
  }
  return real(path, flags, mode);
}

extern "C" int mkdir(const char* path, mode_t mode) {
  static const auto real = Real<int (*)(const char*, mode_t)>("mkdir");
  if (IsReadOnly(path)) {
    errno = EROFS;
    return -1;
  }
  return real(path, mode);
}

extern "C" int clock_gettime(clockid_t clock, timespec* time) {
  static const auto real = Real<int (*)(clockid_t, timespec*)>("clock_gettime");
  static const bool jumps = std::getenv("TRIREME_SHIM_CLOCK") != nullptr;
  static std::atomic<int> looks = 0;
  const int result = real(clock, time);
  if (jumps && clock == CLOCK_REALTIME) {
    constexpr time_t kDay = 86'400;
    time->tv_sec += looks++ % 2 == 0 ? kDay : -kDay;
  }
  return result;
}

extern "C" int statvfs(const char* path, struct statvfs* status) {
  static const auto real = Real<int (*)(const char*, struct statvfs*)>("statvfs");
  const int result = real(path, status);
  if (const char* const free = std::getenv("TRIREME_SHIM_FREE_BYTES")) {
    status->f_bavail = std::strtoull(free, nullptr, 10);
    status->f_frsize = 1;
  }
  return result;
}

extern "C" int fsync(int file) {
  static const auto real = Real<int (*)(int)>("fsync");
  const char* const milliseconds = std::getenv("TRIREME_SHIM_SYNC_MS");
  if (milliseconds != nullptr) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(milliseconds)));
  }
  return real(file);
}
