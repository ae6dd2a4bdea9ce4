#include "base/error.h"
#include "comm/library_versions.h"
#include "comm/nccl_communicator.h"

namespace trireme {

bool NcclIsBuilt() { return false; }

bool NcclSharesGpus() { return false; }

GpuSharing FindGpuSharing(Communicator& /*host*/) { return {}; }

// NOLINTBEGIN(performance-unnecessary-value-param): the form of what takes these where NCCL is built
std::shared_ptr<NcclSession> MakeNcclSession(GpuUse /*use*/,
                                             std::function<void(int, const std::string&)> /*abort_world*/) {
  return nullptr;
}

void AbortNccl(NcclSession& /*session*/) {}

std::unique_ptr<Communicator> MakeNcclCommunicator(std::unique_ptr<Communicator> /*host*/, Device& /*device*/,
                                                   std::shared_ptr<NcclSession> /*session*/, NcclAlone /*alone*/) {
  Fail("this program was not built with NCCL (TRIREME_NCCL)");
}
// NOLINTEND(performance-unnecessary-value-param)

std::string NcclVersion() { return ""; }

}  // namespace trireme
