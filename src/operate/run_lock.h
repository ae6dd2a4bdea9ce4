// One job per run folder: the job that trains holds RUN/lock. Under one kernel, and wherever the file system passes
// locks on, that is flock, which ends with the process however that ends. The file also says who holds it: host name,
// process, the kernel's boot id, the process's namespace and start time, and a random token; its time of change moves
// while the holder lives. Where flock is not supported or stays on its machine, these decide:
//  - same boot id and namespace: the process is looked up. It lives if one of that number started at that time.
//  - otherwise, whatever the host names (containers and images share them): the holder lives if the time of change
//  moves
//    within 2.5 heartbeats.
//  - two that start together without flock both write; the one whose token stays in the file has the lock.
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

// What a holder is known by; equal host names mean nothing.
struct RunLockIdentity {
  std::string host;
  std::string boot;       // /proc/sys/kernel/random/boot_id
  std::string processes;  // the namespace that process numbers belong to
  // The identity of this process; what the system does not tell is "-".
  static RunLockIdentity Here();
};

struct RunLockPlace {
  RunLockIdentity identity = RunLockIdentity::Here();
  bool flock = true;  // false: as on a file system without it
};

class RunLock {
 public:
  // Makes `folder` if need be. An Error names process, machine and age of the holder. Takes over a lock whose holder is
  // gone: at once on this machine, after 2.5 heartbeats without a sign of life from another.
  explicit RunLock(const std::string& folder, const std::string& name = "lock", const RunLockTimes& times = {},
                   const RunLockPlace& place = {});
  // Gives the lock up.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  // True when the system's lock is held; false where there is no such thing.
  bool Lock();
  void RefuseIfHeld(bool locked);
  void RefuseIfItBeats();
  void WriteOwner();
  void RefuseIfOverwritten();
  void Beat();

  std::string path_;
  RunLockTimes times_;
  RunLockPlace place_;
  std::string written_;  // what this object wrote about itself
  int file_ = -1;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread beating_;
};

}  // namespace trireme
