// Starts a training job as a child process and stays with it: sees ranks that died, stopped, spin, never arrive or
// straggle, without asking them or MPI; names rank, phase, collective and peer; keeps ledgers and stacks in
// RUN/flight/death-NNN; ends the job and starts it again from its newest good checkpoint. A run that makes progress is
// never ended.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/exit_codes.h"
#include "operate/watchdog.h"

namespace trireme {

struct SupervisorOptions {
  std::string run_folder;
  std::vector<std::string> command;  // the job, launcher included
  WatchLimits limits;
  double poll_seconds = 0.2;
  double straggler_seconds = 1;  // between looks for ranks that are slow but alive
  double grace_seconds = 3;      // between a launcher's SIGTERM and its SIGKILL
  // What there is to tell a person, line by line.
  std::function<void(const std::string&)> message;
};

// Returns when the job has finished, was stopped on request (SIGTERM, SIGINT and SIGUSR1 are passed on), found its
// input unusable, could not save its end, or has died three times in a row at one step of one cause, or ten times in a
// row without getting further.
int Supervise(const SupervisorOptions& options);

}  // namespace trireme
