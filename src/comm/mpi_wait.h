// How a rank waits within MPI. MPICH and its kin spin until a message is there; where ranks outnumber cores, that takes
// the core from the very rank that the message comes from. There, calls are started and tested, and a rank that waits
// yields its core in between.
#pragma once

#include <mpi.h>

#include <span>

#include "comm/mpi_session.h"

namespace trireme {

// A communicator and how its members wait. Calls of both kinds do not match in MPI: all members must wait alike.
struct MpiGroup {
  MPI_Comm handle = MPI_COMM_NULL;
  bool yields = false;
};

// Returns when all requests are done.
void WaitFor(std::span<MPI_Request> requests, bool yields);

// A collective of `group`: `blocking`, or `starting`, which has a request behind the same arguments, and WaitFor.
// `what` is the name of the former.
template <typename Blocking, typename Starting, typename... Arguments>
void CallCollective(const MpiGroup& group, const char* what, Blocking blocking, Starting starting,
                    Arguments... arguments) {
  if (!group.yields) {
    CheckMpi(blocking(arguments..., group.handle), what);
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  CheckMpi(starting(arguments..., group.handle, &request), what);
  WaitFor({&request, 1}, true);
}

}  // namespace trireme
