// How ranks of a save wait for each other's files, and what they find there instead: a reason why a file will not come,
// a folder that a user has removed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/save/save_steps.h"

namespace trireme {

inline constexpr std::int64_t kLargestFailure = 64 << 10;
// Groups give up before the rank that waits for them does, so that it can name the rank that they waited for.
inline constexpr double kPatienceOfGroups = 0.9;

// Where a rank leaves why its shard will not come.
std::string FailurePath(const SaveTask& task, std::int64_t rank);
// An Error with the reason that the rank left, if it has.
void RefuseFailed(const SaveTask& task, std::int64_t rank);
// An Error when the file at `path`, which this rank has written, is gone.
void RequireWritten(const SaveTask& task, const std::string& path);
// An Error unless there is room for the file of this header.
void RequireSpace(const SaveTask& task, const ShardHeader& header);
void RemoveFiles(const std::vector<std::string>& paths);
// Does `work` in the folder of a save, which is there. Should it be gone when that fails, the Error says so: the call
// that failed for it would say less.
void NamingLostFolder(const SaveTask& task, const std::function<void()>& work);

class ShardWait {
 public:
  // `own`: the file of the rank that waits. All else is referred to.
  ShardWait(const SaveTask& task, std::string own, const CommitLimits& limits)
      : task_(task), own_(std::move(own)), limits_(limits), start_(Clock::now()) {}

  // A pause that grows from a millisecond to a tenth of a second; an Error when the file of `rank` will not come.
  void Pause(std::int64_t rank);

 private:
  using Clock = std::chrono::steady_clock;

  const SaveTask& task_;
  std::string own_;
  const CommitLimits& limits_;
  Clock::time_point start_;
  std::chrono::milliseconds pause_{1};
};

}  // namespace trireme
