#include <fmt/core.h>

#include <utility>

#include "device/op_cases.h"

namespace trireme {
namespace {

struct Sizes {
  std::int64_t tokens;
  std::int64_t experts;
  std::int64_t chosen;
  std::int64_t columns;
};

// A choice and what follows from it, of logits that are no ties.
struct Routed {
  Tensor logits, chosen, weights, order, positions, offsets;
};

Routed RouteOf(Workbench& bench, const Sizes& s, const RouterChoices& router) {
  Routed routed{.logits = bench.Normal(kFloat, {s.tokens, s.experts}, "logits"),
                .chosen = bench.Filled(DType::kInt32, {s.tokens, s.chosen}, -1),
                .weights = bench.Output(kFloat, {s.tokens, s.chosen}),
                .order = bench.Filled(DType::kInt32, {s.tokens * s.chosen}, -1),
                .positions = bench.Filled(DType::kInt32, {s.tokens, s.chosen}, -1),
                .offsets = bench.Filled(DType::kInt32, {s.experts + 1}, -1)};
  const Tensor bias = bench.Normal(kFloat, {s.experts}, "bias", 0.1F);
  bench.ops().Run(Route<Tensor>{
      .router = router, .logits = routed.logits, .bias = bias, .chosen = routed.chosen, .weights = routed.weights});
  bench.ops().Run(OrderRows<Tensor>{
      .chosen = routed.chosen, .order = routed.order, .positions = routed.positions, .offsets = routed.offsets});
  return routed;
}

std::vector<OpResult> RunRoute(Workbench& bench, DType working, const Sizes& s, const RouterChoices& router) {
  const Routed routed = RouteOf(bench, s, router);
  const Tensor token_weights = bench.From(kFloat, {s.tokens}, [&] {
    std::vector<float> weights(static_cast<std::size_t>(s.tokens), 1);
    weights.front() = 0;
    return weights;
  }());
  const Tensor counts = bench.Output(kFloat, {1, s.experts + 1});
  bench.ops().Run(CountChosen<Tensor>{.chosen = routed.chosen, .token_weights = token_weights, .counts = counts});
  const Tensor grad_logits = bench.Output(working, routed.logits.shape);
  bench.ops().Run(RouteBackward<Tensor>{.router = router,
                                        .grad_weights = bench.Normal(kFloat, {s.tokens, s.chosen}, "grad_weights"),
                                        .logits = routed.logits,
                                        .chosen = routed.chosen,
                                        .counts = counts,
                                        .token_weights = token_weights,
                                        .grad_logits = grad_logits,
                                        .balance = 0.3F,
                                        .z = 0.01F});
  const Tensor again = bench.Output(kFloat, {s.tokens, s.chosen});
  bench.ops().Run(Route<Tensor>{.router = router, .logits = routed.logits, .kept = routed.chosen, .weights = again});
  return {{"chosen", bench.Read(routed.chosen)},    {"weights", bench.Read(routed.weights)},
          {"order", bench.Read(routed.order)},      {"positions", bench.Read(routed.positions)},
          {"offsets", bench.Read(routed.offsets)},  {"counts", bench.Read(counts)},
          {"grad_logits", bench.Read(grad_logits)}, {"weights of a kept choice", bench.Read(again)}};
}

std::vector<OpResult> RunRows(Workbench& bench, DType working, const Sizes& s) {
  const Routed routed = RouteOf(bench, s, {});
  const Tensor x = bench.Normal(working, {s.tokens, s.columns}, "x");
  const Tensor rows = bench.Output(working, {s.tokens * s.chosen, s.columns});
  bench.ops().Run(GatherRows<Tensor>{.from = x, .order = routed.order, .to = rows});
  const Tensor made = bench.Normal(working, rows.shape, "made");
  const Tensor added = bench.Normal(working, x.shape, "added");
  const Tensor gate = bench.Normal(kFloat, {s.tokens, 1}, "gate");
  const Tensor plain = bench.Output(working, x.shape);
  bench.ops().Run(CombineRows<Tensor>{.rows = made, .positions = routed.positions, .to = plain});
  const Tensor gated = bench.Output(working, x.shape);
  bench.ops().Run(
      CombineRows<Tensor>{.rows = made, .positions = routed.positions, .added = added, .gate = gate, .to = gated});
  const Tensor grad_added = bench.Output(working, x.shape);
  const Tensor grad_gate = bench.Output(working, gate.shape);
  bench.ops().Run(GateBackward<Tensor>{
      .grad_out = x, .added = added, .gate = gate, .grad_added = grad_added, .grad_gate = grad_gate});
  return {{"rows", bench.Read(rows)},
          {"plain", bench.Read(plain)},
          {"gated", bench.Read(gated)},
          {"grad_added", bench.Read(grad_added)},
          {"grad_gate", bench.Read(grad_gate)}};
}

std::vector<OpResult> RunWeighted(Workbench& bench, DType working, const Sizes& s, ActivationKind kind) {
  const Routed routed = RouteOf(bench, s, {});
  const std::int64_t rows = s.tokens * s.chosen;
  const Tensor z = bench.Normal(working, {rows, 2 * s.columns}, "z", 2);
  const Tensor grad = bench.Normal(working, {rows, s.columns}, "grad");
  const Tensor out = bench.Output(working, grad.shape);
  const Tensor grad_z = bench.Output(working, z.shape);
  const Tensor grad_weights = bench.Output(kFloat, routed.weights.shape);
  bench.ops().Run(
      WeightedActivation<Tensor>{.kind = kind, .from = z, .weights = routed.weights, .order = routed.order, .to = out});
  bench.ops().Run(WeightedActivationBackward<Tensor>{.kind = kind,
                                                     .grad_out = grad,
                                                     .from = z,
                                                     .weights = routed.weights,
                                                     .order = routed.order,
                                                     .grad_from = grad_z,
                                                     .grad_weights = grad_weights});
  return {{"out", bench.Read(out)}, {"grad_z", bench.Read(grad_z)}, {"grad_weights", bench.Read(grad_weights)}};
}

// Rows of each expert, of which some have none.
std::vector<OpResult> RunGrouped(Workbench& bench, DType working, const std::vector<std::int64_t>& counts,
                                 std::int64_t outputs, std::int64_t inputs) {
  const auto experts = static_cast<std::int64_t>(counts.size());
  std::vector<float> ends{0};
  for (const std::int64_t count : counts) {
    ends.push_back(ends.back() + static_cast<float>(count));
  }
  const auto rows = static_cast<std::int64_t>(ends.back());
  const Tensor offsets = bench.From(DType::kInt32, {experts + 1}, ends);
  const Tensor x = bench.Normal(working, {rows, inputs}, "x");
  const Tensor grad = bench.Normal(working, {rows, outputs}, "grad");
  const Tensor weight = bench.Normal(working, {experts, outputs, inputs}, "weight", 0.2F);
  const Tensor out = bench.Output(working, {rows, outputs});
  const Tensor grad_x = bench.Output(working, {rows, inputs});
  const Tensor overwritten = bench.Output(kFloat, weight.shape);
  const Tensor added = bench.Normal(kFloat, weight.shape, "earlier");
  bench.ops().GroupedMatmul({.a = x, .b = weight, .c = out, .offsets = offsets});
  bench.ops().GroupedMatmul(
      {.product = GroupedProduct::kInputGradient, .a = grad, .b = weight, .c = grad_x, .offsets = offsets});
  GroupedMatmulArgs gradient{
      .product = GroupedProduct::kWeightGradient, .a = grad, .b = x, .c = overwritten, .offsets = offsets};
  bench.ops().GroupedMatmul(gradient);
  gradient.c = added;
  gradient.accumulate = true;
  bench.ops().GroupedMatmul(gradient);
  return {{"out", bench.Read(out)},
          {"grad_x", bench.Read(grad_x)},
          {"gradient", bench.Read(overwritten)},
          {"added gradient", bench.Read(added)}};
}

}  // namespace

std::vector<OpCase> ExpertCases() {
  std::vector<OpCase> all;
  const Sizes small{.tokens = 7, .experts = 5, .chosen = 2, .columns = 9};
  const Sizes large{.tokens = 65, .experts = 72, .chosen = 8, .columns = 64};
  for (const auto& [name, router] :
       {std::pair{"Softmax", RouterChoices{}},
        {"SoftmaxRenormalized", {.renormalize = true, .scale = 1.5F}},
        {"Sigmoid", {.score = RouterScore::kSigmoid}},
        {"SigmoidRenormalized", {.score = RouterScore::kSigmoid, .renormalize = true, .scale = 2.5F}}}) {
    for (const Sizes& sizes : {small, large}) {
      all.push_back({fmt::format("Route{}{}of{}", name, sizes.chosen, sizes.experts),
                     [sizes, router = router](Workbench& bench, DType working) {
                       return RunRoute(bench, working, sizes, router);
                     }});
    }
  }
  for (const Sizes& sizes : {small, large}) {
    all.push_back({fmt::format("ExpertRows{}x{}", sizes.tokens, sizes.columns),
                   [sizes](Workbench& bench, DType working) { return RunRows(bench, working, sizes); }});
    for (const auto& [name, kind] :
         {std::pair{"SwiGlu", ActivationKind::kSwiGlu}, std::pair{"GeGlu", ActivationKind::kGeGlu}}) {
      all.push_back(
          {fmt::format("Weighted{}{}x{}", name, sizes.tokens, sizes.columns),
           [sizes, kind = kind](Workbench& bench, DType working) { return RunWeighted(bench, working, sizes, kind); }});
    }
  }
  all.push_back({"GroupedMatmul", [](Workbench& bench, DType working) {
                   return RunGrouped(bench, working, {3, 0, 17, 1, 0}, 12, 10);
                 }});
  all.push_back({"GroupedMatmulAligned", [](Workbench& bench, DType working) {
                   return RunGrouped(bench, working, {32, 64, 0, 16}, 64, 32);
                 }});
  all.push_back({"GroupedMatmulOneExpert", [](Workbench& bench, DType working) {
                   return RunGrouped(bench, working, {0, 0, 24}, 16, 8);
                 }});
  return all;
}

}  // namespace trireme
