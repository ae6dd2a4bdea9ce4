// For tests: a device that does what it may put off as late as it may.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <memory>

#include "device/cpu_double.h"

namespace trireme {

// A CPU whose lanes are as late as they may be: what Beside is given happens when something that waits for it does.
// For users that give it work which refers to nothing of the caller's, so that it can be called later.
class LateDevice : public CpuDouble {
 public:
  void StartAfter(const Moment& moment) override { Reach(moment); }
  Moment Beside(int lane, const Moment& after, const std::function<void()>& work) override {
    if (lane == kOwnLane) {
      Reach(after);
      work();
      return nullptr;
    }
    auto task = std::make_shared<Task>(Task{lane, after, work});
    lanes_[static_cast<std::size_t>(lane)].push_back(task);
    ++tasks;
    return task;
  }

  int tasks = 0;

 private:
  struct Task {
    int lane = 0;
    Moment after;
    std::function<void()> work;
  };
  // Does what is before `moment` in its lane and what each of it waits for, then the work itself.
  void Reach(const Moment& moment) {
    if (moment == nullptr) {
      return;
    }
    auto& lane = lanes_[static_cast<std::size_t>(static_cast<const Task*>(moment.get())->lane)];
    const auto waits = [&] {
      return std::any_of(lane.begin(), lane.end(), [&](const auto& task) { return task.get() == moment.get(); });
    };
    while (waits()) {
      const std::shared_ptr<Task> task = lane.front();
      lane.pop_front();
      Reach(task->after);
      task->work();
    }
  }
  std::array<std::deque<std::shared_ptr<Task>>, kLanes> lanes_;
};

}  // namespace trireme
