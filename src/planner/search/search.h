// Every layout of an allocation, ranked. Pruning is exact: a layout is skipped only when it cannot run, or when a
// bound proves that it is neither among the fastest nor on the front of speed and memory. Every refusal is counted.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/pricing/price_model.h"

namespace trireme {

// Samples of a step that models of this size are usually trained with, in tokens as published runs have it (half a
// million below 1e9 parameters, 1 million below 5e9, 2 million below 3e10, 4 million above). A power of two times the
// odd part of `devices`, so that any number of data ranks among the divisors of `devices` cuts it evenly.
std::int64_t UsualBatch(double parameters, std::int64_t sequence, int devices);

struct SearchRequest {
  const Cluster& cluster;
  const SoftwareStack& stack;
  const StackState& state;
  // The run that is asked for, but for its layout: its model is completed. An optimizer other than AdamW and a rank of
  // PowerSGD where prices().prices_every_recipe() alone; bf16 moments under policy.bf16_moments alone.
  RunConfig config;
  int devices = 1;
  std::int64_t ramp_unit = 0;  // above 0: the batch ramps up in multiples of it, which a layout must divide too
  int most_tensor = 0;         // 0: the devices of a node
  int most_context = 1;        // largest context degree that a search considers
  int most_micro_batch = 64;
  double headroom = 0.06;  // share of device memory to leave free: estimates err by as much
  int keep = 20;           // ranked layouts to return
  int threads = 2;
  // Axes that the user holds fast.
  std::optional<int> tensor, context, pipeline, data, expert, micro_batch, zero, chunks;
  std::optional<ContextKind> context_kind;
  std::optional<std::string> schedule, recompute, partition, offload;
  std::optional<bool> sequence_parallel;
  // Not held: layouts keep activations on the device, and in host memory only where nothing fits otherwise.
  std::optional<bool> offload_activations;
  // What no search varies, such as shard_ranks and reduce, is as here.
  ParallelLayout rest = {};
  // Layouts that take at least as long are of no interest, nor is the front of speed and memory, where it is finite.
  double most_seconds = std::numeric_limits<double>::infinity();
  // Devices may be idle where that is faster: SearchAllocation.
  bool may_idle = false;
  // Layouts within this share of the fastest are ties: one of them is recommended by other means than its seconds.
  double tie = 0;
  // PlanPoint's, of programs that are known by their publications.
  bool power_sgd = false;
  bool fused_optimizer = true;
  bool factored_moments = false;

  const PriceModel& prices() const { return ChoosePrices(cluster, state, DTypeOf(config)); }
  // Values of layout.offload that a search may choose from: nothing is won by it where devices work in the host's
  // memory.
  std::vector<std::string> offloads() const;
};

struct Candidate {
  ParallelLayout layout;
  double seconds = 0;
  double low = 0;
  double high = 0;
  double peak = 0;             // bytes
  double host = 0;             // bytes per node
  double nvme = 0;             // likewise
  double hardware_tflops = 0;  // a device
  double model_tflops = 0;
  double mfu = 0;  // model FLOPs, without recomputation, over the data sheet's peak of the run's type
  double tokens_per_second = 0;
};

// Reasons of SearchResult::refused.
inline constexpr const char* kOutOfDeviceMemory = "out of device memory";
inline constexpr const char* kOutOfHostMemory = "out of host memory";

struct SearchResult {
  std::vector<Candidate> ranked;
  // The one to take of the layouts that tie with the fastest: see preference.h. Without ties the fastest; seconds 0
  // when nothing fits.
  Candidate recommended;
  std::vector<Candidate> front;  // no other is faster with as little memory; fastest first
  std::map<std::string, std::int64_t> refused;
  std::int64_t enumerated = 0;  // all layouts that were considered, one by one or in bulk
  std::int64_t pruned = 0;      // fit, but proved slower
  std::int64_t priced = 0;
};

// Where nothing fits, the program can and the request does not forbid it, layouts that keep activations in host memory
// are tried too. An Error where the request asks for them and the program is not known to have them.
SearchResult Search(const SearchRequest& request);

// The run that a layout of a request stands for; the stack says which attention it has.
RunConfig ConfigOf(const SearchRequest& request, const ParallelLayout& layout);
// The request with one layout, to be priced. Refers to the request.
PlanPoint PointOf(const SearchRequest& request, const ParallelLayout& layout);
// One layout by hand. An Error says what does not divide.
Candidate Price(const SearchRequest& request, const ParallelLayout& layout);
// Whether it has room on the devices, less the headroom, and on the host.
bool Fits(const SearchRequest& request, const Candidate& candidate);
// Throws what makes `layout` impossible for the request, naming the nearest that works.
void RequirePossible(const SearchRequest& request, const ParallelLayout& layout);

}  // namespace trireme
