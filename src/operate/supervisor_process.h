// The processes of a supervised job, seen from the supervisor: started, signalled and ended together.
#pragma once

#include <string>
#include <vector>

#include "comm/ledger.h"

namespace trireme {

class JobProcess {
 public:
  // Starts the program in a process group of its own, with no standard input. It gets SIGTERM when this process dies.
  explicit JobProcess(const std::vector<std::string>& command);
  // The job must have ended or been ended.
  ~JobProcess();
  JobProcess(const JobProcess&) = delete;
  JobProcess& operator=(const JobProcess&) = delete;

  // True once it has ended; then status() is waitpid's.
  bool Ended();
  // Ended(), as soon as it has or after these seconds; also false after a signal to this process.
  bool AwaitEnd(double seconds);
  // True when there are ranks and all are threads of the job's process itself: no launcher is between.
  bool HoldsAll(const std::vector<RankRecord>& ranks) const;
  int status() const { return status_; }
  void Signal(int signal) const;
  // SIGTERM, SIGKILL after `grace` seconds; then the same for ranks that outlived their launcher on this machine.
  void End(double grace, const std::vector<RankRecord>& ranks);

 private:
  int pid_ = -1;
  int handle_ = -1;  // readable when the process has ended; -1: the system has no such thing
  bool ended_ = false;
  int status_ = 0;
};

// The command line of this process without the options that make it a supervisor, after the launcher's words. An Error
// when the launcher's program is not there.
std::vector<std::string> SupervisedCommand(const std::string& launcher, const std::vector<std::string>& own_options);

// What to do about a launcher that ended before it started a rank, where that is known: Open MPI's refuses root unless
// it is told otherwise. Empty where it is not.
std::string LauncherHint(const std::vector<std::string>& command, bool as_root);

}  // namespace trireme
