// Work that is recorded and started as a whole, as CUDA graphs.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda_on_cpu/streams.h"

namespace trireme::cuda_on_cpu {

struct Node {
  std::string name;
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  Work work;
  std::vector<Node*> after;
  std::optional<cudaMemsetParams> memset;
};

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
};

struct Capture {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  Stream* origin = nullptr;
  std::vector<Stream*> streams;
  bool valid = true;
  bool ended = false;
};

// Adds a node behind what the stream has recorded.
Node* AddCaptured(Stream* stream, const std::string& name, Work work);
// Whether the call is one that must not be made while the calling thread records work, which is then reported.
bool IsForbidden(const char* call);
// Reports a call that concerns a stream or event whose work is being recorded.
void ReportForbidden(const char* call, Capture& capture);

}  // namespace trireme::cuda_on_cpu
