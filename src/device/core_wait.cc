#include "device/core_wait.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>

namespace trireme {
namespace {

constexpr double kMostShare = 0.95;

double NowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::map<int, std::int64_t> ReadCoreWaits(const std::string& root) {
  std::map<int, std::int64_t> waits;
  std::error_code error;
  std::filesystem::directory_iterator threads(root + "/proc/self/task", error);
  for (; !error && threads != std::filesystem::directory_iterator(); threads.increment(error)) {
    const std::string name = threads->path().filename();
    int number = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), number).ptr != name.data() + name.size()) {
      continue;
    }
    std::ifstream file(threads->path() / "schedstat");
    std::int64_t ran = 0;
    std::int64_t waited = 0;
    if (file >> ran >> waited) {
      waits[number] = waited;
    }
  }
  return waits;
}

double WaitedShare(const std::map<int, std::int64_t>& before, const std::map<int, std::int64_t>& after, double seconds,
                   int threads) {
  double waited = 0;
  for (const auto& [thread, now] : after) {
    const auto found = before.find(thread);
    waited += static_cast<double>(now - (found == before.end() ? 0 : found->second)) * 1e-9;
  }
  return seconds > 0 && threads > 0 ? std::clamp(waited / (seconds * threads), 0.0, kMostShare) : 0;
}

CoreWait::CoreWait() : before_(ReadCoreWaits()), start_(NowSeconds()) {}

double CoreWait::Share(int threads) const {
  return WaitedShare(before_, ReadCoreWaits(), NowSeconds() - start_, threads);
}

}  // namespace trireme
