#include "base/patient_open.h"

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <random>
#include <thread>

namespace trireme {

int OpenPatiently(const char* path, int flags) {
  constexpr int kTries = 5;
  constexpr double kFirstPause = 0.02;  // seconds; each is twice the one before, times something between a half and one
  double pause = kFirstPause;
  int descriptor = ::open(path, flags);
  for (int tries = 1; descriptor < 0 && tries < kTries; ++tries) {
    if (errno != EAGAIN && errno != ETIMEDOUT && errno != ESTALE) {
      return descriptor;
    }
    std::random_device random;
    const double part = 0.5 + 0.5 * static_cast<double>(random()) / static_cast<double>(std::random_device::max());
    std::this_thread::sleep_for(std::chrono::duration<double>(pause * part));
    pause *= 2;
    descriptor = ::open(path, flags);
  }
  return descriptor;
}

}  // namespace trireme
