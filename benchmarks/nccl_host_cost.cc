// What one collective costs the threads of ranks that share a GPU over NCCL, without Trireme: NCCL's call alone, with
// events around it that are made for each call, and with events that are used again. One line a case on stdout,
// microseconds of the slowest rank's thread. Arguments: ranks (2) and calls (200). Needs NCCL 2.30.
#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

void Check(bool good, const char* what) {
  if (!good) {
    std::fprintf(stderr, "nccl_host_cost: %s failed\n", what);
    std::exit(1);
  }
}

enum class Case { kCollective, kEventsAlone, kNewEvents, kKeptEvents, kOneKeptEvent };
constexpr std::array kCases = {std::pair{Case::kCollective, "all-reduce of 1024 floats"},
                               std::pair{Case::kEventsAlone, "two events that are kept, recorded, alone"},
                               std::pair{Case::kNewEvents, "all-reduce between two events made and destroyed"},
                               std::pair{Case::kKeptEvents, "all-reduce between two events that are kept"},
                               std::pair{Case::kOneKeptEvent, "all-reduce before one event that is kept"}};

struct Rank {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float* data = nullptr;
  std::vector<cudaEvent_t> events;  // two a call
};

cudaEvent_t NewEvent() {
  cudaEvent_t event = nullptr;
  Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess, "cudaEventCreate");
  return event;
}

void Call(Rank& rank, Case which, std::size_t number) {
  const bool fresh = which == Case::kNewEvents;
  cudaEvent_t const begin = fresh ? NewEvent() : rank.events[2 * number];
  cudaEvent_t const end = fresh ? NewEvent() : rank.events[2 * number + 1];
  if (which != Case::kCollective && which != Case::kOneKeptEvent) {
    cudaEventRecord(begin, rank.stream);
  }
  if (which != Case::kEventsAlone) {
    Check(ncclAllReduce(rank.data, rank.data, 1024, ncclFloat32, ncclSum, rank.comm, rank.stream) == ncclSuccess,
          "ncclAllReduce");
  }
  if (which != Case::kCollective) {
    cudaEventRecord(end, rank.stream);
  }
  if (fresh) {
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const int ranks = count > 1 ? std::atoi(arguments[1]) : 2;
  const int calls = count > 2 ? std::atoi(arguments[2]) : 200;
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  ncclUniqueId id{};
  Check(ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
  std::barrier meeting(ranks);
  std::vector<std::array<double, kCases.size()>> microseconds(static_cast<std::size_t>(ranks));
  const auto run = [&](int number) {
    Rank rank;
    Check(cudaSetDevice(0) == cudaSuccess, "cudaSetDevice");
    cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking);
    cudaMalloc(&rank.data, 4096);
    for (int i = 0; i < 2 * calls; ++i) {
      rank.events.push_back(NewEvent());
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.minCTAs = config.maxCTAs = 1;
    Check(ncclCommInitRankConfig(&rank.comm, ranks, id, number, &config) == ncclSuccess, "ncclCommInitRankConfig");
    meeting.arrive_and_wait();
    Call(rank, Case::kCollective, 0);
    for (std::size_t which = 0; which < kCases.size(); ++which) {
      cudaStreamSynchronize(rank.stream);
      meeting.arrive_and_wait();
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < calls; ++i) {
        Call(rank, kCases[which].first, static_cast<std::size_t>(i));
      }
      const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
      microseconds[static_cast<std::size_t>(number)][which] = taken.count() / calls;
    }
    cudaStreamSynchronize(rank.stream);
    meeting.arrive_and_wait();
    ncclCommDestroy(rank.comm);
  };
  {
    std::vector<std::jthread> threads;
    for (int number = 0; number < ranks; ++number) {
      threads.emplace_back(run, number);
    }
  }
  for (std::size_t which = 0; which < kCases.size(); ++which) {
    const auto slowest = std::max_element(microseconds.begin(), microseconds.end(),
                                          [&](const auto& a, const auto& b) { return a[which] < b[which]; });
    std::printf("%d ranks, %s: %.1f us\n", ranks, kCases[which].second, (*slowest)[which]);
  }
  return 0;
}
