// Loaded into the program by tests (LD_PRELOAD): a wall clock that jumps by a day back and forth with every look, or
// syncs that take their time.
#include <dlfcn.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace {

template <typename Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

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

extern "C" int fsync(int file) {
  static const auto real = Real<int (*)(int)>("fsync");
  const char* const milliseconds = std::getenv("TRIREME_SHIM_SYNC_MS");
  if (milliseconds != nullptr) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(milliseconds)));
  }
  return real(file);
}
