// How a run is cut over ranks: plain data. Knows what must divide what; knows no cluster and no rank.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/words.h"

namespace trireme {

// What backward computes a second time instead of keeping it.
enum class Recompute : std::uint8_t {
  kNone,
  kLight,      // outputs of norms and of activation functions
  kSelective,  // these, and the attention between its two projections
  kFull,       // whole blocks: only a block's input is kept
};
// What lies in the host's memory instead of the device's.
enum class Offload : std::uint8_t {
  kNone,
  kOptimizer,  // the optimizer's state
  kFull,       // and the weights, which come to the device when they are used
};

// How attention sees a whole sequence whose tokens lie on several ranks.
enum class ContextKind : std::uint8_t {
  kAllGather,    // keys and values of all tokens come to every rank
  kUlysses,      // all-to-all: each rank gets all tokens of some heads
  kRing,         // keys and values of one rank after another pass by
  kUlyssesRing,  // Ulysses within groups of ranks, ring across the groups
};

// How numbers travel between data ranks.
enum class WireFormat : std::uint8_t {
  kExact,     // gradients in fp32, weights in the working type
  kBFloat16,  // rounded
  kInt8,      // blocks of 64 with a scale each: see base/int8_block.h
};

template <>
inline constexpr std::array<std::string_view, 4> kWords<Recompute> = {"none", "light", "selective", "full"};
template <>
inline constexpr std::array<std::string_view, 3> kWords<Offload> = {"none", "optimizer", "full"};
template <>
inline constexpr std::array<std::string_view, 4> kWords<ContextKind> = {"allgather", "ulysses", "ring", "ulysses+ring"};
template <>
inline constexpr std::array<std::string_view, 3> kWords<WireFormat> = {"exact", "bf16", "int8"};

// What a ZeRO stage shards over the ranks that hold the same weights. No other code compares stages.
struct ZeroPolicy {
  bool optimizer = false;   // stages 1 to 3
  bool gradients = false;   // stages 2 and 3
  bool parameters = false;  // stage 3
};
inline constexpr int kMostZeroStage = 3;
constexpr ZeroPolicy ZeroShards(int stage) {
  return {.optimizer = stage >= 1, .gradients = stage >= 2, .parameters = stage >= 3};
}

struct ParallelLayout {
  int tensor = 1;
  int context = 1;  // ranks among which the tokens of every sequence are divided: see context_share.h
  int pipeline = 1;
  int data = 1;
  int zero = 0;
  std::string schedule = "1f1b";
  int chunks = 1;                     // virtual stages per rank, for schedules with chunks
  std::string partition = "uniform";  // uniform | balanced | cost | "7,7,6": layers of each virtual stage
  bool sequence_parallel = false;
  Recompute recompute = Recompute::kNone;
  int recompute_layers = 0;  // blocks of each chunk, from its first, that recompute; 0: all
  int micro_batch = 1;
  Offload offload = Offload::kNone;
  // Hybrid sharding: ZeRO shards over groups of so many replicas, and the groups are copies of each other; 0: over all.
  int shard_ranks = 0;
  // ZeRO 3 keeps parameters whole on every rank whose slice has fewer elements; 0: none.
  std::int64_t whole_below = 0;
  WireFormat reduce = WireFormat::kExact;  // how gradients travel; micro batches are summed in fp32
  WireFormat gather = WireFormat::kExact;  // how ZeRO 3's weights travel
  bool offload_activations = false;        // what blocks keep for backward lies in host memory meanwhile
  ContextKind context_kind = ContextKind::kAllGather;
  int context_stripes = 1;  // of a sequence, each divided among all context ranks: see context_share.h
  // Under kUlyssesRing: ranks of a group that Ulysses divides heads among; 0: as many as heads allow (HeadRanks).
  int ulysses = 0;
  // Ranks of a pipeline stage among which experts are divided, cut from tensor x context x data; the planner's alone:
  // the trainer holds all experts on each of them.
  int expert = 1;
  int expert_tensor = 0;  // ranks that divide the width of each expert; 0: the tensor ranks

  int ranks() const { return tensor * context * pipeline * data; }
  // Ranks that hold the same weights and add up their gradients: data x context.
  int replicas() const { return context * data; }
  // Replicas over which ZeRO shards, and the copies of what they hold together.
  int shards() const { return shard_ranks > 0 ? shard_ranks : replicas(); }
  int copies() const { return replicas() / shards(); }
  int virtual_stages() const { return pipeline * chunks; }
  int expert_width_ranks() const { return expert_tensor > 0 ? expert_tensor : tensor; }
  // Ranks that hold the same experts; 0 where the groups do not divide a stage's ranks.
  int expert_replicas() const {
    const int group = expert * expert_width_ranks();
    return tensor * replicas() % group == 0 ? tensor * replicas() / group : 0;
  }
  // How gradients are reduced and weights gathered where there is another rank to send them to.
  WireFormat reduced_as() const { return shards() > 1 ? reduce : WireFormat::kExact; }
  WireFormat gathered_as() const { return shards() > 1 ? gather : WireFormat::kExact; }
  // Whether a module's weights are made present for each use.
  bool gathers_modules() const { return ZeroShards(zero).parameters || offload == Offload::kFull; }
  bool operator==(const ParallelLayout&) const = default;
  // "tp2 pp2 dp2 zero1 1f1b mbs4", with what differs from the defaults after it.
  std::string ToString() const;
};

// The axes of the grid, innermost first.
enum class Axis : std::uint8_t { kTensor, kContext, kData, kPipeline };
inline constexpr int kAxes = 4;

struct Coordinate {
  int tensor = 0;
  int context = 0;
  int data = 0;
  int pipeline = 0;
  bool operator==(const Coordinate&) const = default;
};

// A layout laid over ranks 0 … ranks()-1, tensor innermost, pipeline outermost.
class ProcessGrid {
 public:
  explicit ProcessGrid(const ParallelLayout& layout) : layout_(layout) {}

  int ranks() const { return layout_.ranks(); }
  int Degree(Axis axis) const;
  Coordinate CoordinateOf(int rank) const;
  int RankOf(const Coordinate& coordinate) const;
  // The ranks that differ from `rank` along `axis` only, in order, `rank` among them.
  std::vector<int> RanksAlong(Axis axis, int rank) const;
  // The ranks that hold the weights of `rank`: those that differ along the data and context axes only. In order;
  // ReplicaOf is a rank's place among them.
  std::vector<int> Replicas(int rank) const;
  int ReplicaOf(const Coordinate& coordinate) const { return coordinate.data * layout_.context + coordinate.context; }

 private:
  ParallelLayout layout_;
};

// The divisors of `value` nearest to `wanted`, below and above, as "4 or 6" (or "4" when they are one): for messages.
std::string NearestDivisors(std::int64_t value, std::int64_t wanted);

}  // namespace trireme
