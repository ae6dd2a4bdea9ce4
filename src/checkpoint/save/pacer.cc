#include "checkpoint/save/pacer.h"

#include <algorithm>
#include <thread>

namespace trireme {
namespace {

// A part that took longer waited for a disk or a core, and a rest must end soon after `hurry` is set.
constexpr std::chrono::milliseconds kLongestRest{20};

}  // namespace

Pacer::Pacer(const std::atomic<bool>* hurry) : hurry_(hurry), part_(Clock::now()) {}

void Pacer::Rest() {
  if (hurry_ == nullptr || hurry_->load(std::memory_order_relaxed)) {
    return;
  }
  std::this_thread::sleep_for(std::min<Clock::duration>(Clock::now() - part_, kLongestRest));
  part_ = Clock::now();
}

}  // namespace trireme
