// What a run's checkpoints will take on the disk, before the first is written.
#pragma once

#include <cstdint>
#include <string>

#include "run/run_config.h"

namespace trireme {

struct DiskForecast {
  std::int64_t bytes = 0;     // of a checkpoint
  std::int64_t existing = 0;  // checkpoints in the folder
  std::int64_t saves = 0;     // that the run has before it
  std::int64_t keep = 0;      // checkpoint.keep
  bool joined = false;        // files of several ranks: a checkpoint lies there twice while its parts are joined
  std::int64_t free = -1;     // bytes on that file system; -1: not known

  // Checkpoints that lie there at a time, at most: a new one is whole before the oldest goes.
  std::int64_t most() const;
  // Bytes that the folder grows by.
  std::int64_t needed() const;
  bool fits() const { return free < 0 || needed() <= free; }
};

// Saves after `step` of a run that ends at `total`.
std::int64_t SavesToCome(const CheckpointConfig& config, std::int64_t step, std::int64_t total);
// One line; begins with "warning:" where the bytes are not there.
std::string Describe(const DiskForecast& forecast, const std::string& folder);

}  // namespace trireme
