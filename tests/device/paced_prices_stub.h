// Prices for tests of paced devices: round numbers.
#pragma once

#include <memory>

#include "device/paced/paced_cluster.h"

namespace trireme {

// A second for a product, for a kilobyte of memory or links and for 1000 FLOPs of attention; issuing is free.
class RoundPrices final : public PacedCluster {
 public:
  explicit RoundPrices(double issue = 0) : issue_(issue) {}

  std::string name() const override { return "round numbers"; }
  std::int64_t memory_bytes() const override { return std::int64_t{1} << 40; }
  double peak_flops(DType) const override { return 1000; }
  int ranks_per_node() const override { return 2; }
  double Product(const PacedProduct&) const override { return 1; }
  double Attention(double flops, std::int64_t) const override { return flops / 1000; }
  double DeviceMemory(double bytes) const override { return bytes / 1000; }
  double HostLink(double bytes) const override { return bytes / 1000; }
  double Collective(CollectiveKind, double bytes, const PacedGroup& group) const override {
    return bytes / 1000 * group.size;
  }
  double Message(double bytes, bool across_nodes) const override { return bytes / 1000 * (across_nodes ? 10 : 1); }
  double issue() const override { return issue_; }
  double issue_collective() const override { return issue_; }
  double step_end() const override { return 0; }

 private:
  double issue_;
};

}  // namespace trireme
