#include "planner/search/fan_out.h"

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace trireme {

void FanOut(int workers, const std::function<void(int)>& work) {
  std::mutex failure_mutex;
  std::exception_ptr failure;
  const auto guarded = [&](int worker) {
    try {
      work(worker);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(failure_mutex);
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (int worker = 1; worker < workers; ++worker) {
    threads.emplace_back(guarded, worker);
  }
  guarded(0);
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

}  // namespace trireme
