// One producer, many workers, one consumer that sees the results in the producer's order, with a bounded number of
// items under way. The first exception of any of them stops all and comes out of Run().
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace trireme {

template <typename Item, typename Result>
class OrderedPipeline {
 public:
  struct Stages {
    std::function<std::optional<Item>()> produce;       // on a thread of its own
    std::function<Result(const Item&)> work;            // on each of the workers
    std::function<void(const Item&, Result&)> consume;  // on the calling thread, in order
  };

  explicit OrderedPipeline(Stages stages) : stages_(std::move(stages)) {}

  // Returns when everything produced has been consumed.
  void Run(int workers) {
    limit_ = static_cast<std::size_t>(workers) * 2 + 2;
    std::vector<std::thread> threads;
    threads.emplace_back([this] { Guard([this] { Produce(); }); });
    for (int i = 0; i < workers; ++i) {
      threads.emplace_back([this] { Guard([this] { Work(); }); });
    }
    Guard([this] { Consume(); });
    for (std::thread& thread : threads) {
      thread.join();
    }
    if (failure_) {
      std::rethrow_exception(failure_);
    }
  }

 private:
  using Numbered = std::pair<std::int64_t, Item>;

  template <typename Body>
  void Guard(const Body& body) {
    try {
      body();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) {
        failure_ = std::current_exception();
      }
      stopped_ = true;
      changed_.notify_all();
    }
  }

  void Produce() {
    for (std::int64_t number = 0;; ++number) {
      std::optional<Item> item = stages_.produce();
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopped_ || under_way_ < limit_; });
      if (stopped_) {
        return;
      }
      if (!item.has_value()) {
        produced_all_ = true;
        changed_.notify_all();
        return;
      }
      ++under_way_;
      waiting_.emplace_back(number, std::move(*item));
      changed_.notify_all();
    }
  }

  void Work() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopped_ || produced_all_ || !waiting_.empty(); });
      if (stopped_ || waiting_.empty()) {
        return;
      }
      Numbered item = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      Result result = stages_.work(item.second);
      lock.lock();
      done_.emplace(item.first, std::pair(std::move(item.second), std::move(result)));
      changed_.notify_all();
    }
  }

  void Consume() {
    for (std::int64_t number = 0;; ++number) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopped_ || done_.contains(number) || (produced_all_ && under_way_ == 0); });
      const auto found = done_.find(number);
      if (stopped_ || found == done_.end()) {
        return;
      }
      auto [item, result] = std::move(found->second);
      done_.erase(found);
      lock.unlock();
      stages_.consume(item, result);
      lock.lock();
      --under_way_;
      changed_.notify_all();
    }
  }

  Stages stages_;
  std::size_t limit_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Numbered> waiting_;
  std::map<std::int64_t, std::pair<Item, Result>> done_;
  std::size_t under_way_ = 0;
  bool produced_all_ = false;
  bool stopped_ = false;
  std::exception_ptr failure_;
};

}  // namespace trireme
