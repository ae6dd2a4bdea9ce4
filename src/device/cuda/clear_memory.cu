#include <algorithm>
#include <vector>

#include "base/shape.h"
#include "device/cuda/clear_memory.h"
#include "device/cuda/launch.cuh"

namespace trireme {
namespace {

constexpr int kClearThreads = 256;

// Whole words of each row, then the bytes that remain.
template <typename Word>
__global__ void ClearKernel(ClearedRows cleared) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kClearThreads + threadIdx.x;
  const std::int64_t words = cleared.bytes / static_cast<std::int64_t>(sizeof(Word));
  const std::int64_t done = words * static_cast<std::int64_t>(sizeof(Word));
  for (std::int64_t row = blockIdx.y; row < cleared.rows; row += gridDim.y) {
    char* const begin = static_cast<char*>(cleared.first) + row * cleared.bytes_between;
    for (std::int64_t word = first; word < words; word += static_cast<std::int64_t>(gridDim.x) * kClearThreads) {
      reinterpret_cast<Word*>(begin)[word] = Word{};
    }
    if (done + first < cleared.bytes) {
      begin[done + first] = 0;
    }
  }
}

using ClearFunction = void (*)(ClearedRows);

struct Clear {
  ClearFunction kernel;
  LaunchShape shape;
};

template <typename Word>
Clear ClearInWords(const ClearedRows& cleared, int multiprocessors) {
  constexpr std::int64_t kMostRows = 65535;  // of a grid
  const std::int64_t most_blocks = static_cast<std::int64_t>(multiprocessors) * 32;
  const std::int64_t rows = std::min(cleared.rows, kMostRows);
  const std::int64_t words = CeilDiv(cleared.bytes, static_cast<std::int64_t>(sizeof(Word)));
  const std::int64_t blocks = std::min(CeilDiv(words, kClearThreads), CeilDiv(most_blocks, rows));
  return {ClearKernel<Word>, {dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(rows)), dim3(kClearThreads)}};
}

Clear ClearOf(const ClearedRows& cleared, int multiprocessors) {
  const auto aligned = [&](std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(cleared.first) % bytes == 0 &&
           (cleared.rows == 1 || static_cast<std::size_t>(cleared.bytes_between) % bytes == 0);
  };
  if (aligned(sizeof(uint4))) {
    return ClearInWords<uint4>(cleared, multiprocessors);
  }
  return aligned(sizeof(unsigned)) ? ClearInWords<unsigned>(cleared, multiprocessors)
                                   : ClearInWords<unsigned char>(cleared, multiprocessors);
}

enum class Side { kBefore, kAfter };

// The nodes on a side of a memset, whose edges are all plain.
std::vector<cudaGraphNode_t> Neighbours(cudaGraphNode_t node, Side side) {
  const auto ask = [&](cudaGraphNode_t* nodes, std::size_t* count) {
#if CUDART_VERSION >= 13000
    return side == Side::kBefore ? cudaGraphNodeGetDependencies(node, nodes, nullptr, count)
                                 : cudaGraphNodeGetDependentNodes(node, nodes, nullptr, count);
#else
    return side == Side::kBefore ? cudaGraphNodeGetDependencies(node, nodes, count)
                                 : cudaGraphNodeGetDependentNodes(node, nodes, count);
#endif
  };
  std::size_t count = 0;
  CheckCuda(ask(nullptr, &count), "count a memset's neighbours");
  std::vector<cudaGraphNode_t> nodes(count);
  CheckCuda(ask(nodes.data(), &count), "ask for a memset's neighbours");
  return nodes;
}

void AddEdges(cudaGraph_t graph, cudaGraphNode_t from, const std::vector<cudaGraphNode_t>& to) {
  const std::vector<cudaGraphNode_t> froms(to.size(), from);
#if CUDART_VERSION >= 13000
  CheckCuda(cudaGraphAddDependencies(graph, froms.data(), to.data(), nullptr, to.size()), "order a graph");
#else
  CheckCuda(cudaGraphAddDependencies(graph, froms.data(), to.data(), to.size()), "order a graph");
#endif
}

}  // namespace

void ClearRows(const CudaContext& context, const ClearedRows& cleared) {
  if (cleared.bytes > 0 && cleared.rows > 0) {
    const Clear clear = ClearOf(cleared, context.multiprocessors());
    Launch(context, clear.shape, clear.kernel, cleared);
  }
}

void ClearMemory(const CudaContext& context, void* memory, std::int64_t bytes) {
  ClearRows(context, {.first = memory, .bytes_between = bytes, .bytes = bytes, .rows = 1});
}

void ClearByKernels(const CudaContext& context, cudaGraph_t graph) {
  std::size_t count = 0;
  CheckCuda(cudaGraphGetNodes(graph, nullptr, &count), "count a graph's nodes");
  std::vector<cudaGraphNode_t> nodes(count);
  CheckCuda(cudaGraphGetNodes(graph, nodes.data(), &count), "ask for a graph's nodes");
  for (cudaGraphNode_t const node : nodes) {
    cudaGraphNodeType type{};
    CheckCuda(cudaGraphNodeGetType(node, &type), "ask for a node's type");
    if (type != cudaGraphNodeTypeMemset) {
      continue;
    }
    cudaMemsetParams memset{};
    CheckCuda(cudaGraphMemsetNodeGetParams(node, &memset), "ask what a memset clears");
    if (memset.value != 0 || memset.width == 0 || memset.height == 0) {
      continue;
    }
    ClearedRows cleared{.first = memset.dst,
                        .bytes_between = static_cast<std::int64_t>(memset.pitch),
                        .bytes = static_cast<std::int64_t>(memset.width * memset.elementSize),
                        .rows = static_cast<std::int64_t>(memset.height)};
    const Clear clear = ClearOf(cleared, context.multiprocessors());
    void* arguments[] = {&cleared};
    cudaKernelNodeParams kernel{};
    kernel.func = TRIREME_KERNEL(clear.kernel);
    kernel.gridDim = clear.shape.blocks;
    kernel.blockDim = clear.shape.threads;
    kernel.kernelParams = arguments;
    const std::vector<cudaGraphNode_t> before = Neighbours(node, Side::kBefore);
    cudaGraphNode_t made = nullptr;
    CheckCuda(cudaGraphAddKernelNode(&made, graph, before.data(), before.size(), &kernel), "put a kernel for a memset");
    AddEdges(graph, made, Neighbours(node, Side::kAfter));
    CheckCuda(cudaGraphDestroyNode(node), "remove a memset");
  }
}

}  // namespace trireme
