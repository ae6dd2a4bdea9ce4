#include "cuda_on_cpu/findings.h"

#include <mutex>
#include <set>
#include <utility>

namespace trireme::cuda_on_cpu {
namespace {

struct Found {
  std::mutex mutex;
  std::set<std::string> keys;
  std::vector<std::string> texts;
  std::uint64_t seed = 1;
  std::uint64_t state = 0x9e3779b97f4a7c15U;
};

Found& State() {
  static Found found;
  return found;
}

constexpr std::size_t kMostFindings = 50;

}  // namespace

void Report(const std::string& key, const std::string& text) {
  Found& found = State();
  const std::lock_guard lock(found.mutex);
  if (found.keys.insert(key).second && found.texts.size() < kMostFindings) {
    found.texts.push_back(text);
  }
}

std::vector<std::string> TakeFindings() {
  Found& found = State();
  const std::lock_guard lock(found.mutex);
  found.keys.clear();
  return std::exchange(found.texts, {});
}

void SetSeed(std::uint64_t seed) {
  State().seed = seed;
  State().state = seed * 0x9e3779b97f4a7c15U + 1;
}

std::uint64_t Seed() { return State().seed; }

std::uint32_t Draw(std::uint32_t below) {
  std::uint64_t& x = State().state;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return static_cast<std::uint32_t>(((x >> 32) * below) >> 32);
}

}  // namespace trireme::cuda_on_cpu
