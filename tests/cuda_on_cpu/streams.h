// The simulated GPU's streams: a queue each. Work runs when the host waits for it, and at times before: whichever
// stream can go on is drawn by the seed, so that only events, streams and the host order operations. One thing at a
// time, under one lock.
#pragma once

#include <cuda_runtime.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda_on_cpu/operations.h"

namespace trireme::cuda_on_cpu {

struct Capture;
struct Node;

// A place in a stream's work that others may wait for.
struct Marker {
  bool reached = false;
  Clock clock;
  std::uint32_t operations = 0;  // that had run when it was reached
};

// What is done as an operation, whose stream, number and clock are given.
using Work = std::function<void(Operation)>;

struct Stream {
  struct Item {
    std::function<void()> run;
    std::shared_ptr<Marker> reach;
    std::shared_ptr<Marker> wait;
  };
  std::uint32_t place = 0;
  Clock clock;  // of all that was put into it
  std::deque<Item> items;
  std::shared_ptr<Capture> capture;
  std::vector<Node*> frontier;  // of the capture: what the next node comes after
};

struct EventState {
  std::shared_ptr<Marker> marker;    // null: never recorded
  std::shared_ptr<Capture> capture;  // recorded while work was being recorded
  std::vector<Node*> frontier;
  bool asked = false;
};

// Held by every function of the runtime.
std::unique_lock<std::recursive_mutex> LockGpu();
// Keeps an error for cudaGetLastError of the calling thread. Returns it.
cudaError_t Status(cudaError_t error);

Stream* NewStream();
// After all its work.
void EndStream(Stream* stream);
// Puts work into a stream, as a node where the stream's work is being recorded.
void Put(Stream* stream, const std::string& name, Work work);
void PutItem(Stream* stream, Stream::Item item);
// Runs until all work that the stream has so far is done, or the marker is reached; the host's later work is after it.
void WaitFor(Stream* stream);
void WaitFor(const std::shared_ptr<Marker>& marker);
// Runs some streams' next work, or none.
void RunSome();
void RunAll();
// What the host knows to be done.
Clock& HostClock();

inline Stream* StreamOf(cudaStream_t stream) { return reinterpret_cast<Stream*>(stream); }

}  // namespace trireme::cuda_on_cpu
