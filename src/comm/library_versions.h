// Versions of the communication libraries that this program was built with, for reports.
#pragma once

#include <string>

namespace trireme {

// "Open MPI v4.1.4"; empty in builds without MPI. Does not start MPI.
std::string MpiVersion();
// "2.18.3"; empty in builds without NCCL.
std::string NcclVersion();

}  // namespace trireme
