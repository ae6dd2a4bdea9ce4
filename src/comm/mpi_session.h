// MPI of this process: started and ended here, with what outlives single communicators: messages still on their way and
// a host device for sums. Used by the rank's thread.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "device/device.h"

namespace trireme {

// Throws an Error with MPI's text unless `status` is success; `what` names the function.
void CheckMpi(int status, const char* what);

class MpiSession {
 public:
  // Starts MPI unless it runs already; then it also leaves finalizing to the program that started it.
  MpiSession();
  ~MpiSession() = default;
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  // Waits for all messages to have left and ends MPI. Not for a process whose rank failed: it would wait for the
  // others.
  void Finish();

  int world_rank() const { return world_rank_; }
  // This process's number among those of its machine.
  int local_rank() const { return local_rank_; }
  Device& host() { return *host_; }

  // Whether ranks that wait yield their core between tests of what they wait for (mpi_wait.h). Must be set on all ranks
  // alike, between the same collectives.
  bool yields() const { return yields_; }
  void set_yields(bool yields) { yields_ = yields; }
  // Whether this MPI yields by itself, as it was asked to when it was started.
  static bool LibraryYields();

  // Keeps `bytes` alive until `requests` are done; looks on later calls.
  void KeepUntilSent(std::unique_ptr<char[]> bytes, std::vector<MPI_Request> requests);

 private:
  struct Sending {
    std::unique_ptr<char[]> bytes;
    std::vector<MPI_Request> requests;
  };

  bool started_here_ = false;
  bool yields_ = false;
  int world_rank_ = 0;
  int local_rank_ = 0;
  std::unique_ptr<Device> host_;
  std::list<Sending> sending_;
};

}  // namespace trireme
