// What one rank of this program does on a machine, as `trireme calibrate` measured it. An operation is a law:
// seconds = call + work / rate, fitted over several sizes. Plain data; a cluster file holds it under [measured].
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/accounting.h"
#include "base/dtype.h"

namespace trireme {

class Settings;

struct RateLaw {
  double call = 0;  // seconds
  double rate = 0;  // units of work a second; 0: only the call costs
  double Seconds(double work, double calls = 1) const { return calls * call + (rate > 0 ? work / rate : 0); }
};

// A product [m, k] x [k, n]: seconds = call + 2 m n k / flops + (m k + k n) / operands + m n / results. A rate of 0
// leaves its term out.
struct ProductLaw {
  double call = 0;
  double flops = 0;     // FLOP/s
  double operands = 0;  // elements a second
  double results = 0;
  double Seconds(double m, double n, double k, double filled = 1) const;  // filled: share of the device's units at work
};

// Operations other than products. Work is counted in elements of the activation, of logits (loss) or of parameters
// (optimizer, squares, fill); attention's in FLOPs.
enum class RankWork : std::uint8_t {
  kNormForward,         // with the residual sum before it
  kNormBackward,        //
  kGelu,                // beyond the product whose epilogue it is, of the forward pass
  kGeluGradient,        // likewise, of backward
  kActivation,          // gelu alone, or swiglu by output elements
  kActivationBackward,  //
  kRotary,
  kBiasGradient,
  kLoss,  // softmax cross-entropy and its gradient
  kEmbedding,
  kEmbeddingBackward,
  kOptimizer,
  kSquares,  // the sum for the gradient norm
  kFill,
  kResidual,          // the residual sum alone, and plain copies
  kAttentionForward,  // the FLOPs that the causal mask leaves
  kAttentionBackward,
};
inline constexpr int kRankWorks = 17;
const char* Name(RankWork work);

enum class ProductPass : std::uint8_t { kForward, kBackwardInput, kBackwardWeight };
inline constexpr int kProductPasses = 3;
const char* Name(ProductPass pass);

// Rates of one rank while ranks occupy the whole machine.
struct RankRates {
  DType dtype = DType::kFloat32;
  int threads = 1;  // of the rank; 1 on an accelerator
  std::array<ProductLaw, kProductPasses> products;
  std::array<RateLaw, kRankWorks> works;
  const ProductLaw& operator[](ProductPass pass) const { return products[static_cast<std::size_t>(pass)]; }
  ProductLaw& operator[](ProductPass pass) { return products[static_cast<std::size_t>(pass)]; }
  const RateLaw& operator[](RankWork work) const { return works[static_cast<std::size_t>(work)]; }
  RateLaw& operator[](RankWork work) { return works[static_cast<std::size_t>(work)]; }
};

// Collectives of a group, by the bytes that Traffic counts; every rank of the group is in the call.
struct GroupRates {
  DType dtype = DType::kFloat32;
  int ranks = 2;
  int nodes = 1;
  RateLaw all_reduce;
  RateLaw all_gather;
  RateLaw reduce_scatter;
  RateLaw message;                               // from one stage to the next
  const RateLaw* Of(CollectiveKind kind) const;  // nullptr: not measured
};

struct MeasuredRates {
  std::string date;     // ISO
  std::string program;  // version
  std::string machine;  // what was measured
  int cores = 0;        // that ranks on the host's cores share; 0 on accelerators
  double spread = 0.1;  // half of an 80 % interval of seconds, relative
  double step = 0;      // seconds of a step beyond its operations
  double others = 0;    // share of the cores that other processes and guests had meanwhile
  double slowest = 0;   // by how much the slowest process was slower than the fastest; its laws are these
  int slowest_rank = 0;
  double pace = 0;  // seconds of the work of measure/pace.h meanwhile; 0: not measured
  std::vector<RankRates> ranks;
  std::vector<GroupRates> groups;

  // Laws for a rank with this many threads, between measured counts by their logarithms; none when the type was not
  // measured. fp16 that was not has bf16's laws on accelerators, and fp32's on cores, whose products it shares.
  std::optional<RankRates> Rank(DType dtype, int threads) const;
  // Laws of a group, between measured sizes likewise; beyond the largest, calls and bytes cost in proportion to it.
  std::optional<GroupRates> Group(DType dtype, int ranks, int nodes) const;
};

// The [measured] tables of a cluster file; none when it has none. Error as Settings'.
std::optional<MeasuredRates> ReadMeasured(const Settings& file);
// The rates as text, to be appended to a cluster file.
std::string ToToml(const MeasuredRates& measured);

}  // namespace trireme
