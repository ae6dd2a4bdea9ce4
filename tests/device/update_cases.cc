#include <array>

#include "device/op_cases.h"

namespace trireme {
namespace {

std::vector<OpResult> RunAdamW(Workbench& bench, DType working) {
  std::vector<AdamWRange> ranges;
  for (const std::int64_t count : {1, 7, 1024, 4099}) {
    const std::string name = std::to_string(count);
    ranges.push_back({.master = bench.Normal(DType::kFloat32, {count}, "master" + name),
                      .first_moment = bench.Normal(DType::kFloat32, {count}, "first" + name, 0.1F),
                      .second_moment = bench.Filled(DType::kFloat32, {count}, 0.015625F),
                      .gradient = bench.Normal(DType::kFloat32, {count}, "gradient" + name),
                      .weight = bench.Output(working, {count}),
                      .weight_decay = count % 2 == 0 ? 0.1F : 0.0F});
  }
  bench.ops().AdamW(ranges, {.learning_rate = 1e-2F, .step = 3, .gradient_scale = 0.5F});
  std::vector<OpResult> results;
  for (const AdamWRange& range : ranges) {
    results.push_back({"master", bench.Read(range.master)});
    results.push_back({"first_moment", bench.Read(range.first_moment)});
    results.push_back({"second_moment", bench.Read(range.second_moment)});
    results.push_back({"weight", bench.Read(range.weight)});
  }
  return results;
}

std::vector<OpResult> RunSumOfSquares(Workbench& bench) {
  std::vector<Tensor> ranges;
  for (const std::int64_t count : {0, 1, 31, 5000, 100003}) {
    ranges.push_back(bench.Normal(DType::kFloat32, {count}, "range" + std::to_string(count)));
  }
  const Tensor sums = bench.Output(DType::kFloat32, {5});
  bench.ops().SumOfSquares(ranges, sums);
  return {{"sums", bench.Read(sums)}};
}

std::vector<OpResult> RunReduce(Workbench& bench, DType working, bool maximum) {
  const Tensor to = bench.Normal(working, {2051}, "to");
  const Tensor second = bench.Normal(working, {2051}, "second");
  const Tensor third = bench.Normal(working, {2051}, "third");
  const std::array<const void*, 3> sources{second.data, to.data, third.data};
  bench.ops().Reduce(to, sources, maximum);
  return {{"to", bench.Read(to)}};
}

std::vector<OpResult> RunElementwise(Workbench& bench, DType working) {
  const Tensor sum = bench.Normal(working, {515}, "sum");
  const Tensor float_sum = bench.Normal(DType::kFloat32, {515}, "float sum");
  const Tensor term = bench.Normal(working, {515}, "term");
  const Tensor scaled = bench.Normal(working, {515}, "scaled");
  const Tensor widened = bench.Output(DType::kFloat32, {515});
  const Tensor narrowed = bench.Output(working, {515});
  const Tensor filled = bench.Output(DType::kFloat32, {515});
  const Tensor integers = bench.Integers({9}, "integers", 0, 100);
  const Tensor zeroed = bench.Output(working, {515});
  bench.ops().Add(sum, term, -0.5F);
  bench.ops().Add(float_sum, term);
  bench.ops().Scale(scaled, 3.0F);
  bench.ops().Copy(widened, term);
  bench.ops().Copy(narrowed, widened);
  bench.ops().Fill(filled, 1.5F);
  bench.ops().Fill(integers, 7);
  bench.ops().Fill(zeroed, 0);
  return {{"sum", bench.Read(sum)},           {"float sum", bench.Read(float_sum)}, {"scaled", bench.Read(scaled)},
          {"widened", bench.Read(widened)},   {"narrowed", bench.Read(narrowed)},   {"filled", bench.Read(filled)},
          {"integers", bench.Read(integers)}, {"zeroed", bench.Read(zeroed)}};
}

std::vector<OpResult> RunBiasGradient(Workbench& bench, DType working, const Shape& shape) {
  const Tensor grad_bias = bench.Normal(DType::kFloat32, {shape[1]}, "grad_bias");
  bench.ops().BiasGradient(bench.Normal(working, shape, "grad_out"), grad_bias);
  return {{"grad_bias", bench.Read(grad_bias)}};
}

}  // namespace

std::vector<OpCase> UpdateCases() {
  return {
      {"AdamW", RunAdamW},
      {"SumOfSquares", [](Workbench& bench, DType) { return RunSumOfSquares(bench); }},
      {"ReduceSum", [](Workbench& bench, DType working) { return RunReduce(bench, working, false); }},
      {"ReduceMaximum", [](Workbench& bench, DType working) { return RunReduce(bench, working, true); }},
      {"Elementwise", RunElementwise},
      {"BiasGradient1x1",
       [](Workbench& bench, DType type) {
         return RunBiasGradient(bench, type, {1, 1});
       }},
      {"BiasGradient70x33",
       [](Workbench& bench, DType type) {
         return RunBiasGradient(bench, type, {70, 33});
       }},
      {"BiasGradient513x768",
       [](Workbench& bench, DType type) {
         return RunBiasGradient(bench, type, {513, 768});
       }},
  };
}

}  // namespace trireme
