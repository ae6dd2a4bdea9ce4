#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "comm/mpi_communicator.h"
#include "comm/mpi_placement.h"
#include "comm/nccl_communicator.h"
#include "comm/rank_runner.h"

namespace trireme {
namespace {

// Two ranks of one GPU, which NCCL refuses unless it is told, are most often a mistake of the launch: it is said.
bool ConnectsOverNccl(MpiCommunicator& processes) {
  if (!NcclIsBuilt()) {
    if (processes.rank() == 0 && processes.size() > 1) {
      std::fprintf(stderr, "trireme: built without NCCL: messages between GPUs go through host memory\n");
    }
    return false;
  }
  const GpuSharing sharing = FindGpuSharing(processes);
  if (!sharing.shared || NcclSharesGpus()) {
    return true;
  }
  if (processes.rank() == 0) {
    std::fprintf(stderr,
                 "trireme: %s: messages go through host memory. Start one rank per GPU, or set "
                 "NCCL_MULTI_RANK_GPU_ENABLE=1 (NCCL 2.30 or later) to share it over NCCL\n",
                 sharing.message.c_str());
  }
  return false;
}

void RunBody(MpiSession& session, MpiCommunicator& processes, const DeviceOptions& options,
             const std::function<void(RankContext&)>& body) {
  DeviceOptions rank_options = options;
  rank_options.local_rank = session.local_rank();
  const RankPlacement placement = PlaceProcesses(ReadHostCores(), options);
  rank_options.threads = placement.threads;
  session.set_yields(!placement.cores_suffice && !MpiSession::LibraryYields());
  BindThisThread(placement.of_rank(0));
  if (options.choose_engines) {
    const bool first = session.world_rank() == 0;
    rank_options.engines = FromFirstProcess(first ? options.choose_engines(placement.threads) : "");
  }
  const std::unique_ptr<Device> device = MakeDevice(rank_options);
  if (device->is_host() || !ConnectsOverNccl(processes)) {
    MpiCommunicator world(session, *device);
    RankContext context{*device, world, placement.threads};
    body(context);
    world.End();
  } else {
    auto host = std::make_unique<MpiCommunicator>(session, session.host());
    MpiCommunicator& end = *host;
    const auto nccl = MakeNcclSession({.shared = FindGpuSharing(processes).shared},
                                      [&end](int /*rank*/, const std::string& message) { end.Abort(message); });
    const std::unique_ptr<Communicator> world = MakeNcclCommunicator(std::move(host), *device, nccl);
    RankContext context{*device, *world, placement.threads};
    body(context);
    end.End();
  }
}

}  // namespace

void RunMpiRank(const DeviceOptions& options, const std::function<void(RankContext&)>& body) {
  MpiSession session;
  {
    MpiCommunicator processes(session, session.host());
    try {
      RunBody(session, processes, options, body);
    } catch (const std::exception& error) {
      processes.Abort(error.what());
    } catch (...) {
      processes.Abort("an exception of unknown type");
    }
  }
  session.Finish();
}

}  // namespace trireme
