#include <cstdio>
#include <exception>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/library_versions.h"
#include "comm/nccl_communicator.h"
#include "comm/paced_communicator.h"
#include "comm/rank_placement.h"
#include "comm/rank_runner.h"
#include "comm/shared_gpu.h"
#include "comm/thread_communicator.h"

namespace trireme {
namespace {

struct ThreadRank {
  ThreadWorld& world;
  int rank = 0;
  DeviceOptions options;
  std::shared_ptr<NcclSession> nccl;  // GPUs meet over it; none: in memory that all ranks reach
  int sharing = 1;                    // ranks of its GPU
  std::vector<int> processors;        // it is bound to these; empty: as its caller is
};

std::unique_ptr<Communicator> MakeWorld(const ThreadRank& self, Device& device, Device& host) {
  if (auto* const paced = dynamic_cast<PacedDevice*>(&device)) {
    return std::make_unique<PacedCommunicator>(self.world, self.world.root(), self.rank,
                                               PacedCommunicator::Devices{*paced, host});
  }
  auto world = std::make_unique<ThreadCommunicator>(self.world, self.world.root(), self.rank,
                                                    self.nccl != nullptr ? host : device);
  if (self.nccl != nullptr) {
    return MakeNcclCommunicator(std::move(world), device, self.nccl);
  }
  return world;
}

void RunRank(const ThreadRank& self, const std::function<void(RankContext&)>& body) {
  try {
    BindThisThread(self.processors);
    const std::unique_ptr<Device> device = MakeDevice(self.options);
    const std::unique_ptr<Device> host = MakeCpuDevice({.threads = 1});
    const std::unique_ptr<Communicator> world = MakeWorld(self, *device, *host);
    RankContext context{*device, *world, self.options.threads, self.sharing};
    try {
      body(context);
      SharedGpu::Leave(*world, *device);
    } catch (const std::exception& error) {
      self.world.Abort(self.rank, error.what());  // while the device lives, which may wait for other ranks
      throw;
    }
    self.world.End(self.rank);
  } catch (const std::exception& error) {
    self.world.Abort(self.rank, error.what());
  } catch (...) {
    self.world.Abort(self.rank, "an exception of unknown type");
  }
}

// NCCL between the ranks where each has a GPU of its own, or where it lets them share one.
std::shared_ptr<NcclSession> ConnectRanks(ThreadWorld& world, int ranks, int gpus) {
  if (ranks == 1 || gpus == 0) {
    return nullptr;
  }
  if (!NcclIsBuilt()) {
    if (gpus > 1) {
      std::fprintf(stderr, "trireme: built without NCCL: %d ranks share the first of %d GPUs\n", ranks, gpus);
    }
    return nullptr;
  }
  const bool shared = ranks > gpus;
  if (shared && !NcclSharesGpus()) {
    return nullptr;
  }
  const int ranks_of_context = (ranks + gpus - 1) / gpus;
  if (ranks_of_context > kMostRanksOfContext) {
    std::fprintf(stderr, "trireme: %d ranks meet in the memory of one GPU: over NCCL at most %d share one\n", ranks,
                 kMostRanksOfContext);
    return nullptr;
  }
  auto session = MakeNcclSession({.shared = shared, .ranks_of_context = ranks_of_context},
                                 [&world](int rank, const std::string& message) { world.Abort(rank, message); });
  world.set_on_abort([weak = std::weak_ptr(session)] {
    if (const auto held = weak.lock()) {
      AbortNccl(*held);
    }
  });
  if (shared) {
    std::fprintf(stderr, "trireme: %d ranks share %d GPU%s over NCCL %s (NCCL_MULTI_RANK_GPU_ENABLE=1)\n", ranks, gpus,
                 gpus == 1 ? "" : "s", NcclVersion().c_str());
  }
  return session;
}

// What ranks without cores of their own are bound to: a caller that is bound itself, as a rank that starts ranks is,
// would hand its few cores down to them. Empty where they inherit all cores of the process anyway.
std::vector<int> CoresInCommon(const HostCores& cores) {
  std::vector<int> all = cores.ids();
  return all == ProcessorsOfThisThread() ? std::vector<int>() : all;
}

}  // namespace

void RunThreadRanks(int ranks, const DeviceOptions& options, const std::function<void(RankContext&)>& body) {
  Require(ranks >= 1, "cannot run {} ranks", ranks);
  const HostCores cores = ReadHostCores();
  const RankPlacement placement = PlaceRanks(cores, ranks, options);
  const std::vector<int> in_common = placement.processors.empty() ? CoresInCommon(cores) : std::vector<int>();
  ThreadWorld world(ranks, placement.cores_suffice ? WaitStyle::kSpinFirst : WaitStyle::kSleep);
  const std::string engines = options.choose_engines ? options.choose_engines(placement.threads) : options.engines;
  const bool paced = options.kind == "paced";
  const int gpus = options.kind == "cpu" || paced ? 0 : CudaDeviceCount();
  const std::shared_ptr<NcclSession> nccl = ConnectRanks(world, ranks, gpus);
  const int sharing = paced ? 1 : nccl == nullptr ? ranks : (ranks + gpus - 1) / gpus;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      DeviceOptions rank_options = options;
      // Without NCCL ranks reach each other's memory directly, which takes one GPU for all of them.
      rank_options.local_rank = gpus > 0 && nccl == nullptr ? 0 : rank;
      rank_options.threads = placement.threads;
      rank_options.engines = engines;
      const std::vector<int> processors = in_common.empty() ? placement.of_rank(rank) : in_common;
      const ThreadRank self = {world, rank, rank_options, nccl, sharing, processors};
      try {
        threads.emplace_back([self, &body] { RunRank(self, body); });
      } catch (const std::system_error& error) {
        world.Abort(rank, fmt::format("cannot start its thread: {}", error.what()));
        break;
      }
    }
  }
  world.ThrowIfAborted();
}

}  // namespace trireme
