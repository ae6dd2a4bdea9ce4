// What a run holds, computes and sends, in the words that the describing half predicts and the doing half counts.
// Law 5 compares the two with ==.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace trireme {

// What a byte of memory is for.
enum class MemoryKind : std::uint8_t {
  kWeights,      // working copy of the parameters, and ZeRO 3's gathered modules
  kGradients,    // gradient buckets and owned gradient shards, as far as they do not lie over activations
  kOptimizer,    // moments, and the lower halves of fp32 masters whose upper ones are the weights
  kActivations,  // what forward keeps for backward, over all micro batches in flight
  kScratch,      // temporaries of one module's forward or backward, vendor workspaces
  kMessages,     // inputs and gradients that pipeline stages hand over, batches
  kHost,  // in the host's memory instead of the device's: what layout.offload and layout.offload_activations put there
};
inline constexpr int kMemoryKinds = 7;
std::string_view Name(MemoryKind kind);

struct MemoryUse {
  std::array<std::int64_t, kMemoryKinds> bytes{};
  std::int64_t& operator[](MemoryKind kind) { return bytes[static_cast<std::size_t>(kind)]; }
  std::int64_t operator[](MemoryKind kind) const { return bytes[static_cast<std::size_t>(kind)]; }
  // Bytes of the device's memory: all kinds but kHost.
  std::int64_t total() const;
  MemoryUse& operator+=(const MemoryUse& other);
  bool operator==(const MemoryUse&) const = default;
};

// Floating-point operations; a multiply-add is two. Causal attention counts the pairs that the mask leaves.
struct FlopCount {
  std::int64_t matmul = 0;
  std::int64_t attention = 0;
  std::int64_t recomputed = 0;  // matmul and attention that backward did a second time; not in the two above
  std::int64_t update = 0;      // of the optimizer's products; not in total(), which is the model's
  std::int64_t total() const { return matmul + attention + recomputed; }
  FlopCount& operator+=(const FlopCount& other);
  FlopCount operator*(std::int64_t times) const;
  bool operator==(const FlopCount&) const = default;
};

enum class CollectiveKind : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kSend,
  kReceive,
  kBarrier,
};
inline constexpr int kCollectiveKinds = 8;
std::string_view Name(CollectiveKind kind);

// Calls and payload bytes a rank hands to each kind of collective: the whole buffer for all-reduce and broadcast, the
// gathered output for all-gather, the unreduced input for reduce-scatter and all-to-all, the message for send and
// receive. Groups of one move nothing and count nothing.
struct Traffic {
  std::array<std::int64_t, kCollectiveKinds> calls{};
  std::array<std::int64_t, kCollectiveKinds> bytes{};
  void Add(CollectiveKind kind, std::int64_t payload_bytes, std::int64_t times = 1);
  Traffic& operator+=(const Traffic& other);
  Traffic operator-(const Traffic& earlier) const;
  bool operator==(const Traffic&) const = default;
};

}  // namespace trireme
