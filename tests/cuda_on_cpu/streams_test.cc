// Faults in the order of streams, in the lifetime of memory and in recorded work, each of which must be named; and the
// same work in a right order, of which nothing may be said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda_on_cpu/faulty_kernels.h"
#include "cuda_on_cpu/findings.h"
#include "device/cuda/cuda_check.h"

namespace trireme::cuda_on_cpu {
namespace {

constexpr std::size_t kBytes = 1024;

class Streams : public testing::Test {
 protected:
  Streams() : first_(0, {.kind = "cuda"}), second_(0, {.kind = "cuda"}) {
    CheckCuda(cudaMalloc(&memory_, kBytes), "take memory");
    CheckCuda(cudaMalloc(&out_, kBytes), "take memory");
    CheckCuda(cudaEventCreate(&event_), "make an event");
  }
  ~Streams() override {
    Synchronize();
    cudaFree(memory_);
    cudaFree(out_);
    cudaEventDestroy(event_);
  }

  void Synchronize() {
    CheckCuda(cudaStreamSynchronize(first_.stream()), "wait");
    CheckCuda(cudaStreamSynchronize(second_.stream()), "wait");
  }
  void ExpectFinding(const std::string& part) {
    Synchronize();
    EXPECT_THAT(TakeFindings(), testing::Contains(testing::HasSubstr(part)));
  }
  void SecondWaits() {
    CheckCuda(cudaEventRecord(event_, first_.stream()), "record");
    CheckCuda(cudaStreamWaitEvent(second_.stream(), event_, 0), "wait");
  }

  CudaContext first_;
  CudaContext second_;
  float* memory_ = nullptr;
  float* out_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

TEST_F(Streams, AnEventOrdersTwoStreams) {
  for (int time = 0; time < 5; ++time) {
    StartWrite(first_, memory_, static_cast<float>(time));
    SecondWaits();
    StartRead(second_, memory_, out_);
    CheckCuda(cudaEventRecord(event_, second_.stream()), "record");
    CheckCuda(cudaStreamWaitEvent(first_.stream(), event_, 0), "wait");
  }
  float read = -1;
  second_.CopyToHost(&read, out_, sizeof(read));
  EXPECT_EQ(read, 4);
}

TEST_F(Streams, TheHostOrdersTwoStreams) {
  StartWrite(first_, memory_, 1);
  CheckCuda(cudaStreamSynchronize(first_.stream()), "wait");
  StartRead(second_, memory_, out_);
}

TEST_F(Streams, AReadThatWaitsForNoEventIsFound) {
  StartWrite(first_, memory_, 1);
  CheckCuda(cudaStreamSynchronize(first_.stream()), "wait");
  StartWrite(first_, memory_, 2);
  StartRead(second_, memory_, out_);
  ExpectFinding("missing wait between streams");
}

TEST_F(Streams, AnEventThatWasRecordedTooEarlyIsFound) {
  StartWrite(first_, memory_, 1);
  CheckCuda(cudaStreamSynchronize(first_.stream()), "wait");
  CheckCuda(cudaEventRecord(event_, first_.stream()), "record");
  StartWrite(first_, memory_, 2);
  CheckCuda(cudaStreamWaitEvent(second_.stream(), event_, 0), "wait");
  StartRead(second_, memory_, out_);
  ExpectFinding("missing wait between streams");
}

TEST_F(Streams, MemoryWrittenAgainBeforeItsReaderEndsIsFound) {
  StartWrite(first_, memory_, 1);
  SecondWaits();
  StartRead(second_, memory_, out_);
  StartWrite(first_, memory_, 2);
  ExpectFinding("missing wait between streams");
}

TEST_F(Streams, AReaderOfSeveralIsNotForgotten) {
  CudaContext third(0, {.kind = "cuda"});
  StartWrite(first_, memory_, 1);
  SecondWaits();
  CheckCuda(cudaStreamWaitEvent(third.stream(), event_, 0), "wait");
  StartRead(second_, memory_, out_);
  StartRead(third, memory_, out_ + 100);
  // Waits for one of two readers.
  CheckCuda(cudaEventRecord(event_, third.stream()), "record");
  CheckCuda(cudaStreamWaitEvent(first_.stream(), event_, 0), "wait");
  StartWrite(first_, memory_, 2);
  CheckCuda(cudaStreamSynchronize(third.stream()), "wait");
  ExpectFinding("missing wait between streams");
}

TEST_F(Streams, MemoryFreedInAStreamThatDoesNotWaitIsFound) {
  void* memory = nullptr;
  CheckCuda(cudaMallocAsync(&memory, kBytes, first_.stream()), "take memory");
  StartWrite(first_, static_cast<float*>(memory), 1);
  SecondWaits();
  StartRead(second_, static_cast<float*>(memory), out_);
  CheckCuda(cudaFreeAsync(memory, first_.stream()), "free");
  Synchronize();
  // Which of both depends on the order that ran.
  EXPECT_THAT(TakeFindings(), testing::Contains(testing::AnyOf(testing::HasSubstr("freed while in use"),
                                                               testing::HasSubstr("freed memory"))));
}

TEST_F(Streams, MemoryFreedByTheHostWhileInUseIsFound) {
  float* memory = nullptr;
  CheckCuda(cudaMalloc(&memory, kBytes), "take memory");
  StartWrite(first_, memory, 1);
  cudaFree(memory);
  ExpectFinding("freed while in use");
}

TEST_F(Streams, UseOfFreedMemoryIsFound) {
  float* memory = nullptr;
  CheckCuda(cudaMalloc(&memory, kBytes), "take memory");
  cudaFree(memory);
  StartWrite(first_, memory, 1);
  ExpectFinding("freed memory");
}

TEST_F(Streams, UseBeforeTheAllocationInAnotherStreamIsFound) {
  void* memory = nullptr;
  StartWrite(first_, memory_, 1);
  CheckCuda(cudaMallocAsync(&memory, kBytes, first_.stream()), "take memory");
  StartWrite(second_, static_cast<float*>(memory), 1);
  Synchronize();
  cudaFree(memory);
  ExpectFinding("whose allocation in another stream");
}

TEST_F(Streams, RecordedWorkRunsAsOften) {
  StartWrite(first_, memory_, 3);
  CheckCuda(cudaStreamSynchronize(first_.stream()), "wait");
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  CheckCuda(cudaStreamBeginCapture(first_.stream(), cudaStreamCaptureModeThreadLocal), "record");
  SecondWaits();
  StartRead(second_, memory_, out_);
  StartRead(first_, memory_, out_ + 100);
  CheckCuda(cudaEventRecord(event_, second_.stream()), "record");
  CheckCuda(cudaStreamWaitEvent(first_.stream(), event_, 0), "wait");
  CheckCuda(cudaStreamEndCapture(first_.stream(), &graph), "record");
  CheckCuda(cudaGraphInstantiate(&ready, graph, 0), "make");
  cudaGraphDestroy(graph);
  for (int time = 0; time < 3; ++time) {
    CheckCuda(cudaGraphLaunch(ready, first_.stream()), "start");
    float read = -1;
    first_.CopyToHost(&read, out_, sizeof(read));
    EXPECT_EQ(read, 3);
  }
  cudaGraphExecDestroy(ready);
}

TEST_F(Streams, BranchesOfRecordedWorkThatRaceAreFound) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  CheckCuda(cudaStreamBeginCapture(first_.stream(), cudaStreamCaptureModeThreadLocal), "record");
  SecondWaits();
  StartWrite(second_, memory_, 1);
  StartWrite(first_, memory_, 2);
  CheckCuda(cudaEventRecord(event_, second_.stream()), "record");
  CheckCuda(cudaStreamWaitEvent(first_.stream(), event_, 0), "wait");
  CheckCuda(cudaStreamEndCapture(first_.stream(), &graph), "record");
  CheckCuda(cudaGraphInstantiate(&ready, graph, 0), "make");
  CheckCuda(cudaGraphLaunch(ready, first_.stream()), "start");
  ExpectFinding("missing wait between streams");
  cudaGraphDestroy(graph);
  cudaGraphExecDestroy(ready);
}

TEST_F(Streams, CallsThatMayNotBeRecordedAreFound) {
  const auto recorded = [&](const auto& call, const std::string& finding) {
    cudaGraph_t graph = nullptr;
    CheckCuda(cudaStreamBeginCapture(first_.stream(), cudaStreamCaptureModeThreadLocal), "record");
    EXPECT_NE(call(), cudaSuccess) << finding;
    EXPECT_NE(cudaStreamEndCapture(first_.stream(), &graph), cudaSuccess) << finding;
    ExpectFinding(finding);
  };
  float* memory = nullptr;
  recorded([&] { return cudaMalloc(&memory, kBytes); }, "illegal while work is recorded: cudaMalloc");
  recorded([&] { return cudaFree(memory_); }, "illegal while work is recorded: cudaFree");
  recorded([&] { return cudaStreamSynchronize(first_.stream()); },
           "illegal while work is recorded: cudaStreamSynchronize");
  CheckCuda(cudaEventRecord(event_, second_.stream()), "record");
  recorded([&] { return cudaStreamWaitEvent(first_.stream(), event_, 0); }, "an event of work that is not recorded");
}

TEST_F(Streams, ABranchThatIsNotJoinedIsFound) {
  cudaGraph_t graph = nullptr;
  CheckCuda(cudaStreamBeginCapture(first_.stream(), cudaStreamCaptureModeThreadLocal), "record");
  SecondWaits();
  StartWrite(second_, memory_, 1);
  EXPECT_EQ(cudaStreamEndCapture(first_.stream(), &graph), cudaErrorStreamCaptureUnjoined);
  ExpectFinding("another stream's part is not waited for");
}

TEST_F(Streams, HostsWaitForRecordedEventsIsFound) {
  cudaGraph_t graph = nullptr;
  CheckCuda(cudaStreamBeginCapture(first_.stream(), cudaStreamCaptureModeThreadLocal), "record");
  CheckCuda(cudaEventRecord(event_, first_.stream()), "record");
  EXPECT_EQ(cudaEventSynchronize(event_), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaStreamEndCapture(first_.stream(), &graph), cudaSuccess);
  cudaGraphDestroy(graph);
  ExpectFinding("the host waits for an event");
}

}  // namespace
}  // namespace trireme::cuda_on_cpu
