#include "cuda_on_cpu/graphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "cuda_on_cpu/executor.h"
#include "cuda_on_cpu/findings.h"
#include "cuda_on_cpu/launch_limits.h"

#undef cudaLaunchKernelEx

namespace trireme::cuda_on_cpu {
namespace {

struct GraphToRun {
  std::vector<Node> nodes;                      // in an order that their edges allow
  std::vector<std::vector<std::size_t>> after;  // of each node
  std::vector<std::uint32_t> places;            // streams of its own, for branches
  ~GraphToRun() {
    for (const std::uint32_t place : places) {
      GiveBackStreamPlace(place);
    }
  }
};

// The capture that the calling thread has begun.
thread_local Capture* own_capture = nullptr;

std::map<const void*, std::pair<Thunk, MakeParameters>>& Remembered() {
  static std::map<const void*, std::pair<Thunk, MakeParameters>> kernels;
  return kernels;
}

Graph* GraphOf(cudaGraph_t graph) { return reinterpret_cast<Graph*>(graph); }
Node* NodeOf(cudaGraphNode_t node) { return reinterpret_cast<Node*>(node); }
cudaGraphNode_t HandleOf(Node* node) { return reinterpret_cast<cudaGraphNode_t>(node); }
GraphToRun* ExecOf(cudaGraphExec_t graph) { return reinterpret_cast<GraphToRun*>(graph); }

// The graph that has the node: nodes are few, and asked for rarely.
std::vector<Graph*>& AllGraphs() {
  static std::vector<Graph*> graphs;
  return graphs;
}

Graph* OwnerOf(const Node* node) {
  const auto found = std::ranges::find_if(AllGraphs(), [node](const Graph* graph) {
    return std::ranges::any_of(graph->nodes, [node](const auto& each) { return each.get() == node; });
  });
  return found == AllGraphs().end() ? nullptr : *found;
}

bool IsBefore(const Node* node, const std::vector<Node*>& last) {
  std::vector<const Node*> open(last.begin(), last.end());
  std::set<const Node*> seen;
  while (!open.empty()) {
    const Node* const next = open.back();
    open.pop_back();
    if (next == node) {
      return true;
    }
    if (seen.insert(next).second) {
      open.insert(open.end(), next->after.begin(), next->after.end());
    }
  }
  return false;
}

cudaError_t Return(const std::vector<Node*>& nodes, cudaGraphNode_t* out, std::size_t* count) {
  if (out != nullptr) {
    for (std::size_t i = 0; i < std::min(*count, nodes.size()); ++i) {
      out[i] = HandleOf(nodes[i]);
    }
  }
  *count = out == nullptr ? nodes.size() : std::min(*count, nodes.size());
  return cudaSuccess;
}

std::vector<Node*> DependentsOf(Node* node) {
  std::vector<Node*> found;
  for (const auto& other : OwnerOf(node)->nodes) {
    if (std::ranges::find(other->after, node) != other->after.end()) {
      found.push_back(other.get());
    }
  }
  return found;
}

cudaError_t AddEdges(const cudaGraphNode_t* from, const cudaGraphNode_t* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    NodeOf(to[i])->after.push_back(NodeOf(from[i]));
  }
  return cudaSuccess;
}

std::unique_ptr<GraphToRun> Ordered(const Graph& graph) {
  auto made = std::make_unique<GraphToRun>();
  std::map<const Node*, std::size_t> done;
  while (done.size() < graph.nodes.size()) {
    const std::size_t before = done.size();
    for (const auto& node : graph.nodes) {
      const auto is_done = [&](const Node* each) { return done.contains(each); };
      if (!is_done(node.get()) && std::ranges::all_of(node->after, is_done)) {
        std::vector<std::size_t> after;
        for (const Node* each : node->after) {
          after.push_back(done.at(each));
        }
        done[node.get()] = made->nodes.size();
        made->nodes.push_back(*node);
        made->after.push_back(std::move(after));
      }
    }
    if (done.size() == before) {
      return nullptr;  // a circle
    }
  }
  return made;
}

// The nodes as operations: those that follow one another take a stream's place together.
std::vector<Operation> OperationsOf(GraphToRun& graph, Stream& stream) {
  std::vector<Operation> operations(graph.nodes.size());
  std::vector<std::pair<std::uint32_t, std::size_t>> ends;  // places in use, and their last nodes
  std::size_t used_places = 0;
  const Clock begin = stream.clock;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Operation& operation = operations[i];
    operation.name = graph.nodes[i].name;
    operation.clock = begin;
    for (const std::size_t before : graph.after[i]) {
      operation.clock.Join(operations[before].clock);
    }
    const auto end = std::ranges::find_if(
        ends, [&](const auto& each) { return std::ranges::find(graph.after[i], each.second) != graph.after[i].end(); });
    if (end != ends.end()) {
      operation.stream = end->first;
      end->second = i;
    } else if (ends.empty()) {
      operation.stream = stream.place;
      ends.emplace_back(operation.stream, i);
    } else {
      if (used_places == graph.places.size()) {
        graph.places.push_back(TakeStreamPlace());
      }
      operation.stream = graph.places[used_places++];
      ends.emplace_back(operation.stream, i);
    }
    operation.number = NextNumber(operation.stream);
    operation.clock.Set(operation.stream, operation.number);
    stream.clock.Join(operation.clock);
  }
  return operations;
}

void RunNodes(const GraphToRun& graph, const std::vector<Operation>& operations) {
  std::vector<bool> done(graph.nodes.size());
  for (std::size_t left = graph.nodes.size(); left > 0; --left) {
    std::vector<std::size_t> able;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (!done[i] && std::ranges::all_of(graph.after[i], [&](std::size_t before) { return done[before]; })) {
        able.push_back(i);
      }
    }
    const auto count = static_cast<std::uint32_t>(able.size());
    const std::size_t next = able[Seed() == 1 ? 0 : Seed() == 2 ? count - 1 : Draw(count)];
    done[next] = true;
    graph.nodes[next].work(operations[next]);
  }
}

}  // namespace

Node* AddCaptured(Stream* stream, const std::string& name, Work work) {
  auto node = std::make_unique<Node>();
  node->name = name;
  node->type = cudaGraphNodeTypeKernel;
  node->work = std::move(work);
  node->after = stream->frontier;
  Node* const added = node.get();
  stream->capture->graph->nodes.push_back(std::move(node));
  stream->frontier = {added};
  return added;
}

void ReportForbidden(const char* call, Capture& capture) {
  capture.valid = false;
  Report(fmt::format("capture {}", call), fmt::format("illegal while work is recorded: {}", call));
}

bool IsForbidden(const char* call) {
  if (own_capture == nullptr) {
    return false;
  }
  ReportForbidden(call, *own_capture);
  return true;
}

void Remember(const void* kernel, Thunk thunk, MakeParameters make) {
  const auto lock = LockGpu();
  Remembered()[kernel] = {thunk, make};
}

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode /*mode*/) {
  const auto lock = LockGpu();
  Stream* const stream = StreamOf(handle);
  if (stream->capture != nullptr || own_capture != nullptr) {
    return cudaErrorIllegalState;
  }
  const auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->streams = {stream};
  stream->capture = capture;
  own_capture = capture.get();
  stream->frontier.clear();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const auto lock = LockGpu();
  Stream* const stream = StreamOf(handle);
  const std::shared_ptr<Capture> capture = stream->capture;
  *graph = nullptr;
  if (capture == nullptr || capture->origin != stream) {
    return cudaErrorIllegalState;
  }
  own_capture = nullptr;
  capture->ended = true;
  bool joined = true;
  for (Stream* const each : capture->streams) {
    for (const Node* last : each->frontier) {
      joined = joined && IsBefore(last, stream->frontier);
    }
  }
  for (Stream* const each : capture->streams) {
    each->capture = nullptr;
    each->frontier.clear();
  }
  if (!capture->valid) {
    return cudaErrorStreamCaptureInvalidated;
  }
  if (!joined) {
    Report("capture unjoined", "illegal while work is recorded: it ends while another stream's part is not waited for");
    return cudaErrorStreamCaptureUnjoined;
  }
  AllGraphs().push_back(capture->graph.get());
  *graph = reinterpret_cast<cudaGraph_t>(capture->graph.release());
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  const auto lock = LockGpu();
  std::erase(AllGraphs(), GraphOf(handle));
  delete GraphOf(handle);
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  const auto lock = LockGpu();
  std::vector<Node*> all;
  for (const auto& node : GraphOf(graph)->nodes) {
    all.push_back(node.get());
  }
  return Return(all, nodes, count);
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = NodeOf(node)->type;
  return cudaSuccess;
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* parameters) {
  if (!NodeOf(node)->memset.has_value()) {
    return cudaErrorInvalidValue;
  }
  *parameters = *NodeOf(node)->memset;
  return cudaSuccess;
}

#if CUDART_VERSION >= 13000
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* /*edges*/,
                                         std::size_t* count) {
  return Return(NodeOf(node)->after, nodes, count);
}
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* /*edges*/,
                                           std::size_t* count) {
  return Return(DependentsOf(NodeOf(node)), nodes, count);
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t /*graph*/, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                     const cudaGraphEdgeData* /*edges*/, std::size_t count) {
  return AddEdges(from, to, count);
}
#else
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes, std::size_t* count) {
  return Return(NodeOf(node)->after, nodes, count);
}
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes, std::size_t* count) {
  return Return(DependentsOf(NodeOf(node)), nodes, count);
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t /*graph*/, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                     std::size_t count) {
  return AddEdges(from, to, count);
}
#endif

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* made, cudaGraph_t graph, const cudaGraphNode_t* after,
                                   std::size_t count, const cudaKernelNodeParams* kernel) {
  const auto lock = LockGpu();
  const auto known = Remembered().find(kernel->func);
  if (known == Remembered().end()) {
    return cudaErrorInvalidDeviceFunction;
  }
  const KernelLaunch launch{.kernel = kernel->func,
                            .thunk = known->second.first,
                            .parameters = known->second.second(kernel->kernelParams),
                            .blocks = kernel->gridDim,
                            .threads = kernel->blockDim,
                            .shared_bytes = kernel->sharedMemBytes};
  const cudaError_t error = CheckLimits(launch);
  if (error != cudaSuccess) {
    return error;
  }
  auto node = std::make_unique<Node>();
  node->type = cudaGraphNodeTypeKernel;
  node->work = [launch](Operation operation) { RunKernel(launch, std::move(operation)); };
  for (std::size_t i = 0; i < count; ++i) {
    node->after.push_back(NodeOf(after[i]));
  }
  *made = HandleOf(node.get());
  GraphOf(graph)->nodes.push_back(std::move(node));
  return cudaSuccess;
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t handle) {
  const auto lock = LockGpu();
  Node* const node = NodeOf(handle);
  Graph* const graph = OwnerOf(node);
  for (const auto& other : graph->nodes) {
    std::erase(other->after, node);
  }
  std::erase_if(graph->nodes, [node](const auto& each) { return each.get() == node; });
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long /*flags*/) {
  const auto lock = LockGpu();
  std::unique_ptr<GraphToRun> ordered = Ordered(*GraphOf(graph));
  *made = reinterpret_cast<cudaGraphExec_t>(ordered.get());
  return ordered.release() == nullptr ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  const auto lock = LockGpu();
  RunAll();
  delete ExecOf(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t /*graph*/, cudaStream_t /*stream*/) { return cudaSuccess; }

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  const auto lock = LockGpu();
  Stream* const stream = StreamOf(stream_handle);
  GraphToRun* const graph = ExecOf(handle);
  if (stream->capture != nullptr) {
    ReportForbidden("cudaGraphLaunch in a stream that is recorded", *stream->capture);
    return cudaErrorStreamCaptureUnsupported;
  }
  stream->clock.Join(HostClock());
  PutItem(stream, {.run = [graph, operations = OperationsOf(*graph, *stream)] { RunNodes(*graph, operations); },
                   .reach = nullptr,
                   .wait = nullptr});
  RunSome();
  return cudaSuccess;
}

}  // extern "C"
}  // namespace trireme::cuda_on_cpu
