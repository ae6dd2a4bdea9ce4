#include "comm/mailbox.h"

#include <algorithm>

namespace trireme {
namespace {

// A pipeline stage has few messages in flight; more spare memory than that would only be held for nothing.
constexpr std::size_t kSpareMessages = 4;

}  // namespace

Message Mailbox::NewMessage(std::int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto fit = std::find_if(spare_.begin(), spare_.end(), [bytes](const Message& spare) {
      return spare.capacity >= bytes && spare.capacity / 2 <= bytes;
    });
    if (fit != spare_.end()) {
      Message message = std::move(*fit);
      spare_.erase(fit);
      return message;
    }
  }
  Message message;
  message.data = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(bytes));
  message.capacity = bytes;
  return message;
}

void Mailbox::Put(int from, int tag, Message message) {
  {
    const std::lock_guard lock(mutex_);
    queues_[{from, tag}].push_back(std::move(message));
  }
  arrived_.notify_one();
}

bool Mailbox::Take(int from, int tag, const std::function<bool()>& given_up, Message* message) {
  std::unique_lock lock(mutex_);
  const auto queue = queues_.try_emplace({from, tag}).first;
  arrived_.wait(lock, [&] { return !queue->second.empty() || given_up(); });
  if (queue->second.empty()) {
    return false;
  }
  *message = std::move(queue->second.front());
  queue->second.pop_front();
  if (queue->second.empty()) {
    queues_.erase(queue);
  }
  return true;
}

void Mailbox::GiveBack(Message message) {
  const std::lock_guard lock(mutex_);
  if (spare_.size() == kSpareMessages) {
    spare_.erase(spare_.begin());
  }
  spare_.push_back(std::move(message));
}

void Mailbox::Wake() {
  { const std::lock_guard lock(mutex_); }  // a receiver that has just looked must be waiting before it is woken
  arrived_.notify_all();
}

}  // namespace trireme
