#include "device/cuda/clear_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "device/cuda/cuda_check.h"

namespace trireme {
namespace {

constexpr std::int64_t kClearedBytes = 1 << 21;

// Device memory whose bytes are all 255 at first.
class ClearMemoryTest : public testing::Test {
 protected:
  ClearMemoryTest() : context_(0, {.kind = "cuda"}) {
    CheckCuda(cudaMalloc(&memory_, kClearedBytes), "take memory");
    Set();
  }
  ~ClearMemoryTest() override { cudaFree(memory_); }

  void Set() { CheckCuda(cudaMemsetAsync(memory_, 255, kClearedBytes, context_.stream()), "set memory"); }
  std::vector<unsigned char> Read() {
    std::vector<unsigned char> bytes(kClearedBytes);
    context_.CopyToHost(bytes.data(), memory_, kClearedBytes);
    return bytes;
  }

  CudaContext context_;
  char* memory_ = nullptr;
};

TEST_F(ClearMemoryTest, ClearsNoByteMore) {
  for (const std::int64_t first : {0, 4, 1, 2, 16}) {
    // Single bytes are cleared from an odd address: the last size takes more threads than a grid has.
    for (const std::int64_t bytes : {0, 1, 3, 15, 16, 17, 1030, 2'000'000}) {
      Set();
      ClearMemory(context_, memory_ + first, bytes);
      std::vector<unsigned char> expected(kClearedBytes, 255);
      std::fill_n(expected.begin() + first, bytes, 0);
      EXPECT_EQ(Read(), expected) << bytes << " bytes from " << first;
    }
  }
}

TEST_F(ClearMemoryTest, KeepsWhatLiesBetweenRows) {
  for (const std::int64_t between : {16, 20, 33}) {
    Set();
    ClearRows(context_, {.first = memory_, .bytes_between = between, .bytes = 13, .rows = 100});
    std::vector<unsigned char> expected(kClearedBytes, 255);
    for (std::int64_t row = 0; row < 100; ++row) {
      std::fill_n(expected.begin() + row * between, 13, 0);
    }
    EXPECT_EQ(Read(), expected) << between;
  }
}

TEST_F(ClearMemoryTest, ClearsMoreRowsThanAGridHas) {
  constexpr std::int64_t kRows = 70'000;
  ClearRows(context_, {.first = memory_, .bytes_between = 3, .bytes = 1, .rows = kRows});
  std::vector<unsigned char> expected(kClearedBytes, 255);
  for (std::int64_t row = 0; row < kRows; ++row) {
    expected[static_cast<std::size_t>(3 * row)] = 0;
  }
  EXPECT_EQ(Read(), expected);
}

TEST_F(ClearMemoryTest, AGraphsMemsetsBecomeKernelsInTheSameOrder) {
  constexpr std::int64_t kHalf = kClearedBytes / 2;
  cudaGraph_t graph = nullptr;
  CheckCuda(cudaStreamBeginCapture(context_.stream(), cudaStreamCaptureModeThreadLocal), "record");
  CheckCuda(cudaMemsetAsync(memory_, 7, kHalf, context_.stream()), "set");
  CheckCuda(cudaMemsetAsync(memory_, 0, kHalf / 2, context_.stream()), "clear");
  CheckCuda(cudaMemcpyAsync(memory_ + kHalf, memory_, kHalf, cudaMemcpyDeviceToDevice, context_.stream()), "copy");
  CheckCuda(cudaMemset2DAsync(memory_ + kHalf + kHalf / 2, 64, 0, 8, 10, context_.stream()), "clear rows");
  CheckCuda(cudaStreamEndCapture(context_.stream(), &graph), "record");
  ClearByKernels(context_, graph);
  std::size_t count = 0;
  CheckCuda(cudaGraphGetNodes(graph, nullptr, &count), "count");
  std::vector<cudaGraphNode_t> nodes(count);
  CheckCuda(cudaGraphGetNodes(graph, nodes.data(), &count), "ask");
  int memsets = 0;
  for (cudaGraphNode_t const node : nodes) {
    cudaGraphNodeType type{};
    CheckCuda(cudaGraphNodeGetType(node, &type), "ask");
    memsets += type == cudaGraphNodeTypeMemset ? 1 : 0;
  }
  EXPECT_EQ(count, 4U);
  EXPECT_EQ(memsets, 1);  // to 7
  cudaGraphExec_t made = nullptr;
  CheckCuda(cudaGraphInstantiate(&made, graph, 0), "make");
  cudaGraphDestroy(graph);
  std::vector<unsigned char> expected(kClearedBytes, 7);
  std::fill_n(expected.begin(), kHalf / 2, 0);
  std::fill_n(expected.begin() + kHalf, kHalf / 2, 0);
  for (int row = 0; row < 10; ++row) {
    std::fill_n(expected.begin() + kHalf + kHalf / 2 + 64 * row, 8, 0);
  }
  for (int time = 0; time < 3; ++time) {
    CheckCuda(cudaGraphLaunch(made, context_.stream()), "start");
    EXPECT_EQ(Read(), expected);
  }
  cudaGraphExecDestroy(made);
}

}  // namespace
}  // namespace trireme
