// One thing to price: a run, on a cluster under a stack.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"
#include "model/float8_products.h"
#include "run/run_config.h"
#include "topology/cluster.h"
#include "topology/software_stack.h"

namespace trireme {

class PriceModel;
// How a program is priced on a cluster: see price_model.h. dtype: PlanPoint's.
const PriceModel& ChoosePrices(const Cluster& cluster, const StackState& stack, DType dtype);

// What `train.dtype` means: the format of a block's products, and the type of all else. Published runs have more
// formats than our trainer.
ProductFormat ProductFormatOf(const RunConfig& config);
DType DTypeOf(const RunConfig& config);

struct PlanPoint {
  const Cluster& cluster;
  const StackState& stack;
  // Its model is completed. Choices that are not fixed before a run starts (fp8_products = "auto") are priced as taken.
  RunConfig config;
  // For published runs: gradients compressed by PowerSGD; false: an optimizer that walks over its state several times.
  bool power_sgd = false;
  bool fused_optimizer = true;
  bool factored_moments = false;  // Adafactor's: rows and columns instead of a moment for each parameter
  const PriceModel& prices = ChoosePrices(cluster, stack, DTypeOf(config));

  // This run by a program with other properties; refers to `state`.
  PlanPoint Under(const StackState& state) const {
    return {.cluster = cluster,
            .stack = state,
            .config = config,
            .power_sgd = power_sgd,
            .fused_optimizer = fused_optimizer,
            .factored_moments = factored_moments};
  }
  DType dtype() const { return DTypeOf(config); }
  // Whether gradients of micro batches are added up in fp32, of programs that do so in some types only.
  bool accumulates_in_fp32() const {
    return dtype() == DType::kBFloat16 || (dtype() == DType::kFloat16 && stack.time.half_accumulates);
  }
  ProductFormat products() const { return ProductFormatOf(config); }
  // The block's products that are made in `products`; others are made in `dtype`.
  LinearSet linears() const { return ParseFloat8Products(config.train.fp8_products); }
  ProductFormat FormatOf(BlockLinear linear) const {
    return Holds(linears(), linear) ? products() : ProductFormat::kNative;
  }
  DType moments() const { return ParseDType(config.optimizer.moments); }
  OptimizerKind optimizer() const { return config.optimizer.kind; }
  bool flash() const { return !config.train.plain_attention(); }
  // Threads of a rank on the host's cores; 0: its part of them.
  int threads() const { return cluster.device.is_host ? config.train.threads : 0; }
  // Ranks over which ZeRO shards.
  int shards() const {
    const int wanted = config.layout.shard_ranks;
    return wanted > 0 ? std::min(wanted, config.layout.replicas()) : config.layout.replicas();
  }
  std::int64_t micro_batches() const {
    return config.batch.global / (static_cast<std::int64_t>(config.layout.micro_batch) * config.layout.data);
  }
};

}  // namespace trireme
