// One job a run folder: whoever trains holds RUN/lock. On one machine, and wherever the file system passes locks on, it
// is the system's own lock, which ends with the process however that ends. Where locks stay on their machine, the file
// says who holds it and its time of change moves while the holder lives.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace trireme {

struct RunLockTimes {
  // For a holder that is just ending.
  std::chrono::milliseconds patience{5000};
  std::chrono::milliseconds heartbeat{10'000};
};

class RunLock {
 public:
  // Makes `folder` if need be. An Error names process, machine and age of the holder. Takes over a lock whose holder is
  // gone: at once on this machine, after 2.5 heartbeats without a sign of life from another.
  explicit RunLock(const std::string& folder, const std::string& name = "lock", const RunLockTimes& times = {});
  // Gives the lock up.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  void Lock();
  void RefuseIfHeldElsewhere();
  void WriteOwner();
  void Beat();

  std::string path_;
  RunLockTimes times_;
  int file_ = -1;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread beating_;
};

}  // namespace trireme
