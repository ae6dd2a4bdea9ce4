// What operations, collectives and messages cost on a paced cluster. A paced run executes its schedule with these
// prices; they are the planner's cost figures (operate/paced_prices.h), its simulation is not used.
#pragma once

#include <cstdint>
#include <string>

#include "base/accounting.h"
#include "base/dtype.h"

namespace trireme {

// out[m, n] = sum over k.
struct PacedProduct {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType operands = DType::kFloat32;
  double summed_bytes = 0;  // read and written when the product is added to fp32 sums
};

// A group of ranks as it lies on the nodes.
struct PacedGroup {
  int size = 1;
  int per_node = 1;    // members on one node, at least
  bool inner = false;  // within a layer (tensor, context), not between replicas
};

// Used by every rank at once.
class PacedCluster {
 public:
  virtual ~PacedCluster() = default;

  // "perlmutter, A100-SXM4-80GB", for logs.
  virtual std::string name() const = 0;
  virtual std::int64_t memory_bytes() const = 0;  // of a device
  virtual double peak_flops(DType dtype) const = 0;
  virtual int ranks_per_node() const = 0;

  // Seconds of a device.
  virtual double Product(const PacedProduct& product) const = 0;
  virtual double Attention(double flops, std::int64_t head_size) const = 0;
  virtual double DeviceMemory(double bytes) const = 0;  // that element-wise kernels read and write
  virtual double HostLink(double bytes) const = 0;

  // Seconds of links. bytes: as Traffic counts them.
  virtual double Collective(CollectiveKind kind, double bytes, const PacedGroup& group) const = 0;
  virtual double Message(double bytes, bool across_nodes) const = 0;

  // Seconds of the host: to issue an operation, a collective or message, and of a step's end beyond its parts.
  virtual double issue() const = 0;
  virtual double issue_collective() const = 0;
  virtual double step_end() const = 0;
};

}  // namespace trireme
