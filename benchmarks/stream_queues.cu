// How many streams of one CUDA context may wait before other streams, whose work is ready, are held up behind them.
// Ranks that share a GPU wait for each other there, so that a rank that is held up may be the one that is awaited.
// A waiting stream has a kernel that spins, then work of one kind; other streams have work of that kind alone. One line
// a kind and a number of waiting streams on stdout. Arguments: streams in all (100) and the most that wait (32).
#include <cuda_runtime.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t kBytes = 64;

void Check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    std::fprintf(stderr, "stream_queues: %s: %s\n", what, cudaGetErrorString(status));
    std::exit(1);
  }
}

__global__ void SpinKernel(const volatile int* go_on) {
  while (*go_on == 0) {
  }
}

__global__ void WriteKernel(int* to) { *to = 1; }

enum class Work { kKernel, kFill, kCopy, kCopyToHost };
constexpr std::array kWorks = {std::pair{Work::kKernel, "kernel"}, std::pair{Work::kFill, "memset"},
                               std::pair{Work::kCopy, "copy on the device"},
                               std::pair{Work::kCopyToHost, "copy to the host"}};

struct Stream {
  cudaStream_t handle = nullptr;
  cudaEvent_t done = nullptr;
  int* memory = nullptr;  // kBytes to read, kBytes to write
  int* host = nullptr;
};

void Enqueue(const Stream& stream, Work work, const int* spin_until) {
  if (spin_until != nullptr) {
    SpinKernel<<<1, 1, 0, stream.handle>>>(spin_until);
  }
  int* const second = stream.memory + kBytes / sizeof(int);
  switch (work) {
    case Work::kKernel:
      break;
    case Work::kFill:
      Check(cudaMemsetAsync(second, 0, kBytes, stream.handle), "cudaMemsetAsync");
      break;
    case Work::kCopy:
      Check(cudaMemcpyAsync(second, stream.memory, kBytes, cudaMemcpyDefault, stream.handle), "cudaMemcpyAsync");
      break;
    case Work::kCopyToHost:
      Check(cudaMemcpyAsync(stream.host, stream.memory, kBytes, cudaMemcpyDefault, stream.handle), "cudaMemcpyAsync");
      break;
  }
  WriteKernel<<<1, 1, 0, stream.handle>>>(second);
  Check(cudaGetLastError(), "a launch");
}

// The work in a graph, made before anything spins.
cudaGraphExec_t Record(const Stream& stream, Work work, const int* spin_until) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t made = nullptr;
  Check(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  Enqueue(stream, work, spin_until);
  Check(cudaStreamEndCapture(stream.handle, &graph), "cudaStreamEndCapture");
  Check(cudaGraphInstantiate(&made, graph, 0), "cudaGraphInstantiate");
  Check(cudaGraphUpload(made, stream.handle), "cudaGraphUpload");
  cudaGraphDestroy(graph);
  return made;
}

// How many of the streams from `waiting` on have not done their work while those before it wait.
int HeldUp(const std::vector<Stream>& streams, std::size_t waiting, Work work, bool recorded, int* go_on) {
  std::vector<cudaGraphExec_t> graphs;
  for (std::size_t i = 0; recorded && i < streams.size(); ++i) {
    graphs.push_back(Record(streams[i], work, i < waiting ? go_on : nullptr));
  }
  Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  *static_cast<volatile int*>(go_on) = 0;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (recorded) {
      Check(cudaGraphLaunch(graphs[i], streams[i].handle), "cudaGraphLaunch");
    } else {
      Enqueue(streams[i], work, i < waiting ? go_on : nullptr);
    }
    Check(cudaEventRecord(streams[i].done, streams[i].handle), "cudaEventRecord");
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  int held_up = 0;
  for (std::size_t i = waiting; i < streams.size(); ++i) {
    held_up += cudaEventQuery(streams[i].done) == cudaErrorNotReady ? 1 : 0;
  }
  *static_cast<volatile int*>(go_on) = 1;
  Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  for (cudaGraphExec_t const graph : graphs) {
    cudaGraphExecDestroy(graph);
  }
  return held_up;
}

}  // namespace

int main(int count, char** arguments) {
  const int all = count > 1 ? std::atoi(arguments[1]) : 100;
  const int most = count > 2 ? std::atoi(arguments[2]) : 32;
  if (all < 2 || most < 1 || most >= all) {
    std::fprintf(stderr, "stream_queues: some streams must be left that do not wait\n");
    return 2;
  }
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  int* go_on = nullptr;
  Check(cudaHostAlloc(&go_on, sizeof(int), cudaHostAllocMapped), "cudaHostAlloc");
  std::vector<Stream> streams(static_cast<std::size_t>(all));
  for (Stream& stream : streams) {
    Check(cudaStreamCreateWithFlags(&stream.handle, cudaStreamNonBlocking), "cudaStreamCreate");
    Check(cudaEventCreateWithFlags(&stream.done, cudaEventDisableTiming), "cudaEventCreate");
    Check(cudaMalloc(&stream.memory, 2 * kBytes), "cudaMalloc");
    Check(cudaHostAlloc(&stream.host, kBytes, cudaHostAllocDefault), "cudaHostAlloc");
  }
  for (const bool recorded : {false, true}) {
    for (const auto& [work, name] : kWorks) {
      for (const int waiting : {1, 2, 4, 8, 16, 20, 22, 24, 26, 28, 30, 31, 32, 48, 64}) {
        if (waiting > most) {
          break;
        }
        const int held_up = HeldUp(streams, static_cast<std::size_t>(waiting), work, recorded, go_on);
        std::printf("%s%s: %d waiting streams hold up %d of %d others\n", name, recorded ? ", recorded" : "", waiting,
                    held_up, all - waiting);
      }
    }
  }
  return 0;
}
