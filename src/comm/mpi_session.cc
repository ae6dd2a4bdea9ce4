#include "comm/mpi_session.h"

#include <array>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "comm/launch_environment.h"
#include "comm/library_versions.h"
#include "comm/mpi_wait.h"

namespace trireme {
namespace {

int LocalRank() {
  if (const std::optional<int> rank = LocalRankFromEnvironment()) {
    return *rank;
  }
  MPI_Comm machine = MPI_COMM_NULL;
  CheckMpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine),
           "MPI_Comm_split_type");
  int rank = 0;
  CheckMpi(MPI_Comm_rank(machine, &rank), "MPI_Comm_rank");
  CheckMpi(MPI_Comm_free(&machine), "MPI_Comm_free");
  return rank;
}

}  // namespace

void CheckMpi(int status, const char* what) {
  if (status != MPI_SUCCESS) {
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(status, text.data(), &length);
    Fail("{}: {}", what, std::string(text.data(), static_cast<std::size_t>(length)));
  }
}

MpiSession::MpiSession() : host_(MakeCpuDevice({.threads = 1})) {
  int running = 0;
  MPI_Initialized(&running);
  if (running == 0) {
    // More ranks than cores must not keep each other from running while they wait; a user's own choice is left alone.
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    // Abort may come from a watchdog's thread while the rank's own waits inside MPI.
    int provided = 0;
    CheckMpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
    started_here_ = true;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  CheckMpi(MPI_Comm_rank(MPI_COMM_WORLD, &world_rank_), "MPI_Comm_rank");
  local_rank_ = LocalRank();
}

bool MpiSession::LibraryYields() { return MpiVersion().starts_with("Open MPI"); }

void MpiSession::Finish() {
  for (Sending& sending : sending_) {
    WaitFor(sending.requests, yields_);
  }
  sending_.clear();
  if (started_here_) {
    CheckMpi(MPI_Finalize(), "MPI_Finalize");
  }
}

void MpiSession::KeepUntilSent(std::unique_ptr<char[]> bytes, std::vector<MPI_Request> requests) {
  sending_.push_back({std::move(bytes), std::move(requests)});
  for (auto sending = sending_.begin(); sending != sending_.end();) {
    int done = 0;
    CheckMpi(
        MPI_Testall(static_cast<int>(sending->requests.size()), sending->requests.data(), &done, MPI_STATUSES_IGNORE),
        "MPI_Testall");
    sending = done != 0 ? sending_.erase(sending) : std::next(sending);
  }
}

std::string MpiVersion() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) {
    return "unknown";
  }
  // "Open MPI v4.1.4, package: ...": what follows the version tells who built it.
  const std::string version(text.data());
  return version.substr(0, version.find_first_of(",\n"));
}

}  // namespace trireme
