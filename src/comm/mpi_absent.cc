#include "base/error.h"
#include "comm/library_versions.h"
#include "comm/rank_runner.h"

namespace trireme {

void RunMpiRank(const DeviceOptions& /*options*/, const std::function<void(RankContext&)>& /*body*/) {
  Fail("this program was not built with MPI (TRIREME_MPI)");
}

std::string MpiVersion() { return ""; }

}  // namespace trireme
