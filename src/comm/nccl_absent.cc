#include "base/error.h"
#include "comm/library_versions.h"
#include "comm/nccl_communicator.h"

namespace trireme {

bool NcclIsBuilt() { return false; }

bool NcclCanConnect(Communicator& /*host*/) { return false; }

std::unique_ptr<Communicator> MakeNcclCommunicator(std::unique_ptr<Communicator> /*host*/, Device& /*device*/,
                                                   NcclAlone /*alone*/) {
  Fail("this program was not built with NCCL (TRIREME_NCCL)");
}

std::string NcclVersion() { return ""; }

}  // namespace trireme
