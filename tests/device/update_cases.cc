#include <algorithm>
#include <array>
#include <limits>

#include "base/int8_block.h"
#include "base/tensor_spec.h"
#include "device/op_cases.h"

namespace trireme {
namespace {

// What is left of an update with the factor 1/2 everywhere is exact or rounded once, in whatever order a device takes
// it: moments in bf16, which depend on every bit, are then the same.
constexpr UpdateArgs kExactMoments{
    .learning_rate = 1e-2F, .beta1 = 0.5F, .beta2 = 0.5F, .step = 3, .gradient_scale = 0.5F};

struct Updates {
  UpdateArgs args{.learning_rate = 1e-2F, .step = 3, .gradient_scale = 0.5F};
  float scale = 1;  // of weights, drawn so that bf16 holds them, before they become masters
  DType moments = DType::kFloat32;
  std::int64_t first = 0;  // where ranges begin in their memory
};

std::vector<OpResult> RunAdamW(Workbench& bench, DType working, const Updates& updates) {
  std::vector<UpdateRange> ranges;
  std::vector<Tensor> masters;
  for (const std::int64_t count : {1, 7, 1024, 4099}) {
    const std::string name = std::to_string(count);
    const auto part = [&](const Tensor& tensor) { return tensor.Range(updates.first, count); };
    masters.push_back(bench.Normal(DType::kFloat32, {count}, "weight" + name));
    bench.ops().Scale(masters.back(), updates.scale);
    ranges.push_back(
        {.weight = masters.back(),
         .first_moment = part(bench.Normal(updates.moments, {count + updates.first}, "first" + name, 0.1F)),
         .second_moment = part(bench.Filled(updates.moments, {count + updates.first}, 0.015625F)),
         .gradient = bench.Normal(DType::kFloat32, {count}, "gradient" + name),
         .weight_decay = count % 2 == 0 ? 0.1F : 0.0F,
         .rate = count % 2 == 0 ? 0.5F : 1.0F,
         .gradient_scale = count % 2 == 0 ? 1.5F : 1.0F});
    if (!HasFirstMoment(updates.args.kind)) {
      ranges.back().first_moment = {};
    }
    if (!HasSecondMoment(updates.args.kind)) {
      ranges.back().second_moment = {};
    }
    if (working != DType::kFloat32) {
      ranges.back().weight = bench.Output(working, {count});
      ranges.back().low = bench.Filled(RestOfMaster(working), {count}, 1);
      bench.ops().Split(ranges.back().weight, ranges.back().low, masters.back());
    }
  }
  bench.ops().Update(ranges, updates.args);
  std::vector<OpResult> results;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const UpdateRange& range = ranges[i];
    if (range.low.given()) {
      bench.ops().Join(masters[i], range.weight, range.low);
    }
    results.push_back({"master", bench.Read(masters[i])});
    if (range.first_moment.given()) {
      results.push_back({"first_moment", bench.Read(range.first_moment)});
    }
    if (range.second_moment.given()) {
      results.push_back({"second_moment", bench.Read(range.second_moment)});
    }
    results.push_back({"gradient", bench.Read(range.gradient)});
  }
  return results;
}

// Cases of the other kinds.
OpCase KindCase(const std::string& name, UpdateKind kind, DType moments) {
  return {name,
          [kind, moments](Workbench& bench, DType working) {
            const UpdateArgs args{.kind = kind,
                                  .learning_rate = 1e-2F,
                                  .epsilon = 1e-6F,
                                  .momentum = 0.5F,
                                  .nesterov = true,
                                  .step = 3,
                                  .gradient_scale = 0.5F};
            return RunAdamW(bench, working, {.args = args, .moments = moments});
          },
          2e-5, 2e-5};
}

// Parts of a matrix of 37 x 70 that begin and end within rows.
std::vector<OpResult> RunByAxis(Workbench& bench) {
  constexpr std::int64_t kColumns = 70;
  std::vector<OpResult> results;
  for (const auto& [first, last] : {std::pair{0, 37 * 70}, {71, 1500}, {100, 120}, {2000, 2590}}) {
    const MatrixPart part{.values = bench.Normal(DType::kFloat32, {last - first}, "values"),
                          .first = first,
                          .columns = kColumns,
                          .rows = bench.Output(DType::kFloat32, {37}),
                          .column_values = bench.Output(DType::kFloat32, {kColumns})};
    bench.ops().SumSquaresByAxis(part, 0.5F);
    results.push_back({"rows", bench.Read(part.rows)});
    results.push_back({"columns", bench.Read(part.column_values)});
    bench.ops().ScaleByAxis(part, 2.0F);
    results.push_back({"values", bench.Read(part.values)});
  }
  return results;
}

std::vector<OpResult> RunCopyBlocks(Workbench& bench) {
  const Tensor to = bench.Filled(DType::kFloat32, {200}, 0);
  bench.ops().CopyBlocks({.to = to.Range(3, 197),
                          .from = bench.Normal(DType::kFloat32, {120}, "from"),
                          .rows = 9,
                          .columns = 7,
                          .to_stride = 20,
                          .from_stride = 11});
  return {{"to", bench.Read(to)}};
}

std::vector<OpResult> RunHalfSquares(Workbench& bench) {
  const std::array<Tensor, 2> ranges = {bench.Normal(DType::kBFloat16, {1003}, "a"),
                                        bench.Normal(DType::kBFloat16, {9000}, "b")};
  const Tensor sums = bench.Output(DType::kFloat32, {2});
  bench.ops().SumOfSquares(ranges, sums);
  return {{"sums", bench.Read(sums)}};
}

// Moments in bf16 alone, to the bit.
std::vector<OpResult> RunHalfMoments(Workbench& bench, DType working, std::int64_t first) {
  std::vector<OpResult> results =
      RunAdamW(bench, working, {.args = kExactMoments, .moments = DType::kBFloat16, .first = first});
  std::erase_if(results, [](const OpResult& result) { return result.name == "master" || result.name == "gradient"; });
  return results;
}

// The masters that they lead to, of which only the first update is free of chance.
std::vector<OpResult> RunMastersOfHalfMoments(Workbench& bench, DType working) {
  std::vector<OpResult> results = RunAdamW(bench, working, {.moments = DType::kBFloat16});
  std::erase_if(results, [](const OpResult& result) { return result.name != "master"; });
  return results;
}

// Halves do not depend on the working type. Pieces that start at 1 and 8 elements are not aligned alike.
std::vector<OpResult> RunHalves(Workbench& bench) {
  constexpr std::int64_t kCount = 2051;
  const Tensor from = bench.Normal(DType::kFloat32, {kCount}, "from");
  bench.ops().Scale(from, 1.0007F);
  std::vector<float> values = bench.Read(from);
  values[0] = 1.00390625F;  // a tie
  values[1] = -1.00390625F;
  values[2] = std::numeric_limits<float>::infinity();
  values[3] = std::numeric_limits<float>::max();
  values[4] = std::numeric_limits<float>::denorm_min();
  values[5] = -0.0F;
  bench.Write(from, values);
  std::vector<OpResult> results;
  for (const std::int64_t first : {0, 1, 8}) {
    const auto part = [&](const Tensor& tensor) { return tensor.Range(first, kCount - first); };
    const Tensor high = bench.Filled(DType::kBFloat16, {kCount}, 0);
    const Tensor low = bench.Filled(DType::kUInt16, {kCount}, 0);
    const Tensor to = bench.Filled(DType::kFloat32, {kCount}, 0);
    bench.ops().Split(part(high), part(low), part(from));
    bench.ops().Join(part(to), part(high), part(low));
    results.push_back({"high", bench.Read(high)});
    results.push_back({"low", bench.Read(low)});
    results.push_back({"to", bench.Read(to)});
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

// Three parts with a block of zeros: words and sums, to the bit where the working type holds them.
std::vector<OpResult> RunInt8(Workbench& bench, DType working) {
  constexpr std::int64_t kCount = 37 * kInt8Block;
  constexpr int kParts = 3;
  const Tensor packed = bench.Filled(DType::kInt32, {kParts * PackedWords(kCount)}, 0);
  for (int part = 0; part < kParts; ++part) {
    const Tensor from = bench.Normal(working, {kCount}, "from" + std::to_string(part));
    std::vector<float> values = bench.Read(from);
    std::fill_n(values.begin() + 2 * kInt8Block, kInt8Block, 0.0F);
    bench.Write(from, values);
    bench.ops().PackInt8(packed.Range(part * PackedWords(kCount), PackedWords(kCount)), from);
  }
  const Tensor first = bench.Output(working, {kCount});
  const Tensor sum = bench.Output(DType::kFloat32, {kCount});
  const Tensor added = bench.Normal(DType::kFloat32, {kCount}, "added");
  bench.ops().UnpackInt8(first, packed.Range(0, PackedWords(kCount)), {});
  bench.ops().UnpackInt8(sum, packed, {.parts = kParts});
  bench.ops().UnpackInt8(added, packed, {.parts = kParts, .add = true});
  return {{"packed", bench.Read(packed)},
          {"first", bench.Read(first)},
          {"sum", bench.Read(sum)},
          {"added", bench.Read(added)}};
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

// Initial weights: the same bits everywhere. Places that start at 1 element are not aligned.
std::vector<OpResult> RunDrawNormal(Workbench& bench) {
  const NormalDraw draw{.key = 5, .first_element = std::int64_t{1} << 40, .stride = 4097, .deviation = 0.02F};
  std::vector<OpResult> results;
  for (const auto& [rows, columns] : {std::pair{1, 1}, {1, 70001}, {37, 129}, {300, 256}}) {
    const std::int64_t count = std::int64_t{rows} * columns;
    const Tensor memory = bench.Filled(DType::kFloat32, {count + 1}, 0);
    for (const std::int64_t first : {0, 1}) {
      Tensor to = memory.Range(first, count);
      to.shape = {rows, columns};
      bench.ops().DrawNormal(to, draw);
      results.push_back({"to", bench.Read(memory)});
    }
  }
  return results;
}

std::vector<OpResult> RunBiasGradient(Workbench& bench, DType working, const Shape& shape) {
  const Tensor grad_bias = bench.Normal(DType::kFloat32, {shape[1]}, "grad_bias");
  bench.ops().BiasGradient(bench.Normal(working, shape, "grad_out"), grad_bias);
  return {{"grad_bias", bench.Read(grad_bias)}};
}

}  // namespace

std::vector<OpCase> UpdateCases() {
  return {
      {"AdamW", [](Workbench& bench, DType working) { return RunAdamW(bench, working, {}); }, 2e-5, 2e-5},
      {"AdamWOfMastersThatBFloat16DoesNotHold",
       [](Workbench& bench, DType working) { return RunAdamW(bench, working, {.scale = 1.0007F}); }, 2e-5, 2e-5},
      {"AdamWWithMomentsInBFloat16", [](Workbench& bench, DType working) { return RunHalfMoments(bench, working, 0); },
       0, 0},
      {"AdamWWithMomentsInBFloat16AtAnOddPlace",
       [](Workbench& bench, DType working) { return RunHalfMoments(bench, working, 1); }, 0, 0},
      {"AdamWOfMastersWithMomentsInBFloat16", RunMastersOfHalfMoments, 2e-5, 2e-5},
      KindCase("Lion", UpdateKind::kLion, DType::kFloat32),
      KindCase("Sgd", UpdateKind::kSgd, DType::kFloat32),
      KindCase("Momentum", UpdateKind::kMomentum, DType::kFloat32),
      KindCase("RootScale", UpdateKind::kRootScale, DType::kFloat32),
      KindCase("Apply", UpdateKind::kApply, DType::kFloat32),
      {"SumSquaresAndScaleByAxis", [](Workbench& bench, DType) { return RunByAxis(bench); }, 2e-5, 2e-5},
      {"CopyBlocks", [](Workbench& bench, DType) { return RunCopyBlocks(bench); }, 0, 0},
      {"SumOfSquaresOfBFloat16", [](Workbench& bench, DType) { return RunHalfSquares(bench); }},
      {"SplitAndJoin", [](Workbench& bench, DType) { return RunHalves(bench); }, 0, 0},
      {"SumOfSquares", [](Workbench& bench, DType) { return RunSumOfSquares(bench); }},
      {"ReduceSum", [](Workbench& bench, DType working) { return RunReduce(bench, working, false); }},
      {"ReduceMaximum", [](Workbench& bench, DType working) { return RunReduce(bench, working, true); }},
      {"DrawNormal", [](Workbench& bench, DType) { return RunDrawNormal(bench); }, 0, 0},
      {"Elementwise", RunElementwise},
      {"Int8Blocks", RunInt8, 0, 4e-3},
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
