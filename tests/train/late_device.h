// For tests: a device that does what it may put off as late as it may.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <memory>

#include "device/cpu_double.h"

namespace trireme {

// A CPU whose streams are as late as they may be: work given to OnStream happens when something that waits for it does.
// For users that give it work which refers to nothing of the caller's, so that it can be called later.
class LateDevice : public CpuDouble {
 public:
  void StreamWait(const Event& event) override { Reach(event); }
  Event OnStream(int stream, const Event& after, const std::function<void()>& work) override {
    if (stream == kComputeStream) {
      Reach(after);
      work();
      return nullptr;
    }
    auto task = std::make_shared<Task>(Task{stream, after, work});
    streams_[static_cast<std::size_t>(stream)].push_back(task);
    ++tasks;
    return task;
  }

  int tasks = 0;

 private:
  struct Task {
    int stream = 0;
    Event after;
    std::function<void()> work;
  };
  // Does what is before `event` in its stream and what each of it waits for, then the work itself.
  void Reach(const Event& event) {
    if (event == nullptr) {
      return;
    }
    auto& stream = streams_[static_cast<std::size_t>(static_cast<const Task*>(event.get())->stream)];
    const auto waits = [&] {
      return std::any_of(stream.begin(), stream.end(), [&](const auto& task) { return task.get() == event.get(); });
    };
    while (waits()) {
      const std::shared_ptr<Task> task = stream.front();
      stream.pop_front();
      Reach(task->after);
      task->work();
    }
  }
  std::array<std::deque<std::shared_ptr<Task>>, kStreams> streams_;
};

}  // namespace trireme
