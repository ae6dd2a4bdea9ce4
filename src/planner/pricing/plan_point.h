// One thing to price: a model, a layout, a batch, on a cluster under a stack. Plain references, cheap to make.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"
#include "model/float8_products.h"
#include "model/model_config.h"
#include "run/optimizer_kind.h"
#include "topology/cluster.h"
#include "topology/layout.h"
#include "topology/software_stack.h"

namespace trireme {

class PriceModel;
// How a program on a cluster is priced: see price_model.h.
const PriceModel& ChoosePrices(const Cluster& cluster, const StackState& stack, DType dtype);

struct PlanPoint {
  const Cluster& cluster;
  const StackState& stack;
  const ModelConfig& model;  // completed
  ParallelLayout layout;
  std::int64_t global_batch = 1;
  DType dtype = DType::kBFloat16;
  ProductFormat products = ProductFormat::kNative;  // of the blocks
  // Of a block's products those that are made in `products`, others in `dtype`. A run has chosen when it is predicted;
  // `trireme plan`, which knows no device to choose on, takes all.
  LinearSet linears = kAllLinears;
  DType moments = DType::kFloat32;  // of the optimizer
  // Others than AdamW, and a rank of PowerSGD, where prices_every_recipe() alone.
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  bool flash = true;            // fused attention
  bool power_sgd = false;       // gradients compressed by PowerSGD, in other programs than ours
  int power_sgd_rank = 0;       // above 0: by ours
  bool fused_optimizer = true;  // false: one that walks over its state several times (Adafactor)
  int threads = 0;              // of a rank on the host's cores; 0: its part of them
  int shard_ranks = 0;          // above 0: ZeRO shards over groups of so many ranks, which are copies of each other
  const PriceModel& prices = ChoosePrices(cluster, stack, dtype);

  // The same run of a program with other properties; refers to `state`.
  PlanPoint Under(const StackState& state) const {
    return {.cluster = cluster,
            .stack = state,
            .model = model,
            .layout = layout,
            .global_batch = global_batch,
            .dtype = dtype,
            .products = products,
            .linears = linears,
            .moments = moments,
            .optimizer = optimizer,
            .flash = flash,
            .power_sgd = power_sgd,
            .power_sgd_rank = power_sgd_rank,
            .fused_optimizer = fused_optimizer,
            .threads = threads,
            .shard_ranks = shard_ranks};
  }
  ProductFormat FormatOf(BlockLinear linear) const {
    return Holds(linears, linear) ? products : ProductFormat::kNative;
  }
  // Ranks over which ZeRO shards.
  int shards() const { return shard_ranks > 0 ? std::min(shard_ranks, layout.replicas()) : layout.replicas(); }
  std::int64_t micro_batches() const {
    return global_batch / (static_cast<std::int64_t>(layout.micro_batch) * layout.data);
  }
};

}  // namespace trireme
