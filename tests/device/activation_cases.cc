#include <fmt/core.h>

#include <utility>

#include "device/op_cases.h"

namespace trireme {
namespace {

std::vector<OpResult> RunActivation(Workbench& bench, DType working, ActivationKind kind, const Shape& shape) {
  const Shape wide{shape[0], shape[1] * (IsGated(kind) ? 2 : 1)};
  const Tensor z = bench.Normal(working, wide, "z", 3);
  const Tensor grad = bench.Normal(working, shape, "grad");
  const Tensor out = bench.Output(working, shape);
  const Tensor grad_z = bench.Output(working, wide);
  bench.ops().Run(ActivationForward<Tensor>{.kind = kind, .from = z, .to = out});
  bench.ops().Run(ActivationBackward<Tensor>{.kind = kind, .grad_out = grad, .from = z, .grad_from = grad_z});
  return {{"out", bench.Read(out)}, {"grad_z", bench.Read(grad_z)}};
}

std::vector<OpResult> RunRotary(Workbench& bench, DType working, Rotary<Tensor> args, std::int64_t rows) {
  args.qkv = bench.Normal(working, {rows, (args.heads + 2 * args.kv_heads) * args.head_size}, "qkv");
  bench.ops().Run(args);
  OpResult by_row{"qkv", bench.Read(args.qkv)};
  args.positions = bench.Integers({rows}, "positions", 0, args.sequence);
  bench.ops().Run(args);
  return {std::move(by_row), {"qkv at positions", bench.Read(args.qkv)}};
}

}  // namespace

std::vector<OpCase> ActivationCases() {
  std::vector<OpCase> all;
  for (const Shape& shape : {Shape{1, 1}, Shape{7, 33}, Shape{64, 256}}) {
    for (const auto& [name, kind] :
         {std::pair{"Gelu", ActivationKind::kGelu}, std::pair{"SwiGlu", ActivationKind::kSwiGlu},
          std::pair{"ExactGelu", ActivationKind::kExactGelu}, std::pair{"GeGlu", ActivationKind::kGeGlu},
          std::pair{"Relu", ActivationKind::kRelu}, std::pair{"SquaredRelu", ActivationKind::kSquaredRelu},
          std::pair{"Silu", ActivationKind::kSilu}, std::pair{"ReGlu", ActivationKind::kReGlu},
          std::pair{"ExactGeGlu", ActivationKind::kExactGeGlu}}) {
      all.push_back(
          {fmt::format("{}{}x{}", name, shape[0], shape[1]), [kind = kind, shape](Workbench& bench, DType working) {
             return RunActivation(bench, working, kind, shape);
           }});
    }
  }
  const Rotary<Tensor> plain{.sequence = 17, .heads = 3, .kv_heads = 3, .head_size = 10};
  const Rotary<Tensor> grouped{
      .sequence = 100, .heads = 4, .kv_heads = 2, .head_size = 64, .theta = 500000, .inverse = true};
  static const std::vector<double> kFrequencies = {1, 0.3, 0.1, 0.01, 0.2, 0.02, 0.5, 0.003};
  const Rotary<Tensor> partial{
      .sequence = 17, .heads = 2, .kv_heads = 2, .head_size = 24, .frequencies = kFrequencies, .magnitude = 1.25F};
  all.push_back(
      {"RotaryPartial", [partial](Workbench& bench, DType working) { return RunRotary(bench, working, partial, 34); }});
  all.push_back({"Rotary", [plain](Workbench& bench, DType working) { return RunRotary(bench, working, plain, 34); }});
  all.push_back({"RotaryInverseGrouped",
                 [grouped](Workbench& bench, DType working) { return RunRotary(bench, working, grouped, 200); }});
  return all;
}

}  // namespace trireme
