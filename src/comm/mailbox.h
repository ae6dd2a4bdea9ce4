// Messages on their way to one thread rank within one group. Senders put and go on; the receiver waits.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/dtype.h"

namespace trireme {

// A message's bytes in host memory with what they are.
struct Message {
  std::unique_ptr<char[]> data;
  std::int64_t capacity = 0;
  DType dtype = DType::kFloat32;
  std::int64_t count = 0;
  double arrival = 0;  // of a paced device's message, which has no bytes: when it is there
};

// Used by any thread, received from by one.
class Mailbox {
 public:
  // A message with room for `bytes`, from the ones given back where one is large enough.
  Message NewMessage(std::int64_t bytes);
  void Put(int from, int tag, Message message);
  // Waits for the oldest message of (from, tag). False when `given_up` became true first; it is asked anew after
  // every Wake().
  bool Take(int from, int tag, const std::function<bool()>& given_up, Message* message);
  // A taken message whose memory may serve again.
  void GiveBack(Message message);
  void Wake();

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::pair<int, int>, std::deque<Message>> queues_;
  std::vector<Message> spare_;
};

}  // namespace trireme
