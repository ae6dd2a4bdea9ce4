#include "operate/paced_prices.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/dtype.h"
#include "cost/step_cost.h"
#include "lowering/module_program.h"
#include "planner/pricing/module_time.h"
#include "planner/pricing/price_model.h"

namespace trireme {
namespace {

class PacedPrices final : public PacedCluster {
 public:
  PacedPrices(const RunConfig& config, const Cluster& cluster, const SoftwareStack& stack)
      : cluster_(cluster),
        stack_(Resolve(stack, cluster, "")),
        point_{.cluster = cluster_, .stack = stack_, .config = config},
        native_(ProductPrice(point_, ProductFormat::kNative)),
        float8_(ProductPrice(point_, ProductFormat::kFloat8)) {
    // The host's seconds of a layer, divided over the operations of its forward and backward: collectives have a price
    // of their own.
    const ModuleProgram program = PlanBlock(config.model, point_.prices.Sizes(point_));
    std::int64_t operations = 0;
    for (const std::vector<ProgramStep>* steps : {&program.forward, &program.backward, &program.backward_weight}) {
      operations += std::count_if(steps->begin(), steps->end(), [](const ProgramStep& step) {
        return !std::holds_alternative<CollectiveStep>(step.work);
      });
    }
    const bool stalls = config.layout.pipeline > 1 && config.layout.tensor > 1;
    const Efficiencies& e = stack_.efficiencies;
    issue_ =
        (e.layer_seconds + (stalls ? e.stall_seconds * config.layout.tensor : 0)) / static_cast<double>(operations);
  }

  std::string name() const override { return fmt::format("{}, {}", cluster_.name, cluster_.device.name); }
  std::int64_t memory_bytes() const override { return static_cast<std::int64_t>(cluster_.device.memory); }
  double peak_flops(DType dtype) const override {
    return cluster_.device.Peak(IsFloat8(dtype) ? ProductFormat::kFloat8 : ProductFormat::kNative, dtype);
  }
  int ranks_per_node() const override { return cluster_.devices_per_node; }

  double Product(const PacedProduct& product) const override {
    const MatmulPrice& price = IsFloat8(product.operands) ? float8_ : native_;
    return price.Seconds({product.m, product.n, product.k}) + DeviceMemory(product.summed_bytes);
  }
  double Attention(double flops, std::int64_t head_size) const override {
    return flops / FusedAttentionRate(point_, head_size);
  }
  double DeviceMemory(double bytes) const override {
    return bytes / (cluster_.device.memory_bandwidth * stack_.efficiencies.memory);
  }
  // All ranks of a node use its host's memory at once.
  double HostLink(double bytes) const override {
    const Efficiencies& e = stack_.efficiencies;
    const double shared = cluster_.host_bandwidth * e.host_memory / cluster_.devices_per_node;
    const double link = cluster_.host_link.bandwidth * e.host_link;
    return cluster_.host_link.latency + (link > 0 ? bytes / (shared > 0 ? std::min(link, shared) : link) : 0);
  }

  double Collective(CollectiveKind kind, double bytes, const PacedGroup& group) const override {
    const GroupPlacement place{.size = group.size,
                               .per_node = group.per_node,
                               .sharing = std::max(1, cluster_.devices_per_node / group.per_node)};
    return CollectiveSeconds(kind, bytes, 1, place, cluster_, group.inner ? InnerShares(point_) : OuterShares(point_));
  }
  double Message(double bytes, bool across_nodes) const override {
    return MessageSeconds(bytes, cluster_, across_nodes, stack_.efficiencies.message_link);
  }

  double issue() const override { return issue_; }
  double issue_collective() const override { return stack_.time.collective_seconds; }
  double step_end() const override { return stack_.efficiencies.step_seconds; }

 private:
  Cluster cluster_;
  StackState stack_;
  PlanPoint point_;  // of the two above
  MatmulPrice native_;
  MatmulPrice float8_;
  double issue_ = 0;
};

}  // namespace

std::shared_ptr<const PacedCluster> PriceCluster(const RunConfig& config, const Cluster& cluster,
                                                 const SoftwareStack& stack) {
  return std::make_shared<const PacedPrices>(config, cluster, stack);
}

}  // namespace trireme
