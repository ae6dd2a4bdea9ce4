#include "checkpoint/save/shard_wait.h"

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/durable_file.h"
#include "base/error.h"
#include "checkpoint/format/shard_writer.h"

namespace trireme {
namespace {

// The first folder on the way to that of a save which is not there; empty: all are.
std::string MissingFolder(const SaveTask& task) {
  std::filesystem::path missing;
  for (std::filesystem::path at = task.unfinished(); at.has_relative_path() && IsGone(at); at = at.parent_path()) {
    missing = at;
  }
  return missing.string();
}

}  // namespace

std::string FailurePath(const SaveTask& task, std::int64_t rank) {
  return fmt::format("{}/shard-{:05}.failed-{}", task.unfinished(), rank, task.attempt);
}

void RefuseFailed(const SaveTask& task, std::int64_t rank) {
  const std::string failure = FailurePath(task, rank);
  std::error_code error;
  if (std::filesystem::exists(failure, error)) {
    const std::string reason = ReadWholeFile(failure, kLargestFailure);
    // The first rank of a group passes on what one of its ranks said.
    Fail("{}{}", reason.starts_with("rank ") ? "" : fmt::format("rank {}: ", rank), reason);
  }
}

void RequireWritten(const SaveTask& task, const std::string& path) {
  Require(!IsGone(path), "what was written to '{}' has been removed from there", task.unfinished());
}

void RequireSpace(const SaveTask& task, const ShardHeader& header) {
  const std::int64_t needed = ShardFileBytes(header);
  const std::int64_t free = FreeBytes(task.unfinished());
  Require(free < 0 || needed <= free, "'{}' needs {} bytes for the shard of rank {}, {} are free", task.folder, needed,
          task.rank, free);
}

void RemoveFiles(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    RemoveTree(path);
  }
}

void NamingLostFolder(const SaveTask& task, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    const std::string missing = IsGone(task.finished()) ? MissingFolder(task) : "";  // or it has its final name
    Require(missing.empty(), "'{}' was removed while the checkpoint was being written to it ({})", missing,
            error.what());
    throw;
  }
}

void ShardWait::Pause(std::int64_t rank) {
  const std::chrono::duration<double> waited = Clock::now() - start_;
  RequireWritten(task_, own_);
  if (const std::int64_t lost = limits_.lost == nullptr ? -1 : limits_.lost->load(); lost >= 0) {
    RefuseFailed(task_, lost);
    Fail("the shard of rank {} has been removed from '{}', or could not be written there", lost, task_.unfinished());
  }
  Require(limits_.stop == nullptr || !limits_.stop->load(), "the run ended before the shard of rank {} came", rank);
  Require(waited.count() < limits_.seconds, "the shard of rank {} did not come within {} s", rank, limits_.seconds);
  std::this_thread::sleep_for(pause_);
  pause_ = std::min(pause_ * 2, std::chrono::milliseconds(100));
}

}  // namespace trireme
