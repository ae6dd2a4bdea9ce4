#include "comm/mpi_wait.h"

#include <thread>

namespace trireme {

void WaitFor(std::span<MPI_Request> requests, bool yields) {
  const auto count = static_cast<int>(requests.size());
  if (!yields) {
    CheckMpi(MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    return;
  }
  for (int done = 0; done == 0;) {
    CheckMpi(MPI_Testall(count, requests.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (done == 0) {
      std::this_thread::yield();
    }
  }
}

}  // namespace trireme
