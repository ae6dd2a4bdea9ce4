// A run's folder that is read again and again while the run trains: metrics.jsonl from where the last reading ended,
// other files when they have changed. Files that are symbolic links count as absent.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "report/run_record.h"

namespace trireme {

class RunFollower {
 public:
  explicit RunFollower(std::string folder);

  // Reads what has changed since the last call. False: nothing has.
  bool Refresh();
  const RunRecord& run() const { return run_; }
  void set_name(std::string name) { run_.name = std::move(name); }
  // Steps that the last Refresh found as they were: a run that resumes from a checkpoint drops those after it.
  std::int64_t steps_kept() const { return steps_kept_; }
  // Whether the last Refresh has read timelines anew.
  bool timelines_changed() const { return timelines_changed_; }
  // When metrics.jsonl was last written, in seconds since 1970; 0: there is none.
  double written() const;

 private:
  struct Stamp {
    std::int64_t size = -1;  // -1: no such file
    std::int64_t modified_ns = 0;
    std::uint64_t inode = 0;
    bool operator==(const Stamp&) const = default;
  };
  static constexpr std::array<const char*, 7> kFiles = {"metrics.jsonl", "trace.json",      "events.jsonl", "run.toml",
                                                        "memory.json",   "prediction.json", "machine.json"};

  static Stamp StampOf(const std::string& path);
  void FollowMetrics(const Stamp& now);
  bool EndsAsBefore() const;

  RunRecord run_;
  std::array<Stamp, kFiles.size()> stamps_;
  std::int64_t read_ = 0;  // bytes of metrics.jsonl, up to the end of a line
  std::string last_line_;  // the one that ends there
  std::int64_t steps_kept_ = 0;
  bool timelines_changed_ = false;
};

}  // namespace trireme
