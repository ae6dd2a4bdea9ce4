// Measures the machine that the program runs on, for the planner: every operation of a training step, collectives,
// memory, host copies and disk, as a Cluster with `measured` laws. About a minute.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "topology/cluster.h"

namespace trireme {

struct CalibrateOptions {
  bool quick = false;             // fewer sizes and repetitions: some seconds, and rougher
  std::string device = "auto";    // auto | cpu | cuda
  std::string disk_folder = ".";  // whose disk is measured; a file is written there and removed
  // A machine with the same accelerator: what cannot be measured (units, power) is taken from it.
  std::optional<Cluster> known;
  // What was measured here before: a launch of processes, which have one number of threads, keeps the laws of others.
  std::optional<Cluster> earlier;
  // Share that is done and what begins; called on rank 0, may be missing.
  std::function<void(double done, const std::string& what)> progress;
};

// "2 cores of Intel(R) Xeon(R) Processor", "8 x NVIDIA H200": by what calibrations are found again. Cores are those
// that the process may use; under mpirun or srun, which bind each process to a few, those of the job on this machine.
std::string MachineName(const std::string& device = "auto");

// Under mpirun or srun a collective of all processes, whose first gets the result and the others none. A step waits for
// the slowest rank, so that its laws are the result's; the pace of the cores is that of the slowest machine
// (measure/pace.h). An Error when the device or the disk cannot be used.
std::optional<Cluster> Calibrate(const CalibrateOptions& options);

}  // namespace trireme
