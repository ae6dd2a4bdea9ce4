#include <fmt/core.h>

#include "device/op_cases.h"

namespace trireme {
namespace {

constexpr DType kE4M3 = DType::kFloat8E4M3;
constexpr DType kE5M2 = DType::kFloat8E5M2;

struct Float8Copy {
  Tensor rows;
  Tensor columns;
  Tensor scale;
};

Float8Copy Quantized(Workbench& bench, const Tensor& from, DType format) {
  const Float8Copy copy{bench.Output(format, from.shape), bench.Output(format, {from.shape[1], from.shape[0]}),
                        bench.Output(DType::kFloat32, {1})};
  bench.ops().Quantize({.from = from, .rows = copy.rows, .columns = copy.columns, .scale = copy.scale});
  return copy;
}

std::vector<OpResult> RunQuantize(Workbench& bench, DType working, const Shape& shape, DType format) {
  const Tensor from = bench.Normal(working, shape, "from", 3e-3F);
  const Float8Copy both = Quantized(bench, from, format);
  const Tensor rows = bench.Output(format, shape);
  const Tensor columns = bench.Output(format, {shape[1], shape[0]});
  bench.ops().Quantize({.from = from, .rows = rows, .scale = both.scale});
  bench.ops().Quantize({.from = from, .columns = columns, .scale = both.scale});
  return {{"rows", bench.Read(both.rows)},
          {"columns", bench.Read(both.columns)},
          {"rows alone", bench.Read(rows)},
          {"columns alone", bench.Read(columns)},
          {"scale", bench.Read(both.scale)}};
}

struct ProductCase {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  DType a = kE4M3;
  bool accumulate = false;
  bool bias = false;
  Epilogue epilogue = Epilogue::kNone;
};

std::vector<OpResult> RunProduct(Workbench& bench, DType working, const ProductCase& c) {
  const Float8Copy a = Quantized(bench, bench.Normal(working, {c.m, c.k}, "a", 40), c.a);
  const Float8Copy b = Quantized(bench, bench.Normal(working, {c.n, c.k}, "b", 1e-3F), kE4M3);
  const DType out = c.accumulate ? DType::kFloat32 : DType::kBFloat16;
  const MatmulArgs args{.a = a.rows,
                        .b = b.rows,
                        .c = c.accumulate ? bench.Normal(out, {c.m, c.n}, "c") : bench.Output(out, {c.m, c.n}),
                        .transpose_b = true,
                        .accumulate = c.accumulate,
                        .epilogue = c.epilogue,
                        .scale_a = a.scale,
                        .scale_b = b.scale};
  return MultiplyWithEpilogue(bench, DType::kBFloat16, c.bias, args);
}

}  // namespace

std::vector<OpCase> Float8Cases() {
  std::vector<OpCase> all;
  for (const Shape& shape : {Shape{16, 16}, Shape{128, 128}, Shape{144, 400}, Shape{7, 33}, Shape{1, 1}}) {
    for (const DType format : {kE4M3, kE5M2}) {
      all.push_back({.name = fmt::format("Quantize{}x{}{}", shape[0], shape[1], Name(format)),
                     .run = [shape, format](Workbench& bench,
                                            DType working) { return RunQuantize(bench, working, shape, format); },
                     .fp32_tolerance = 0,
                     .bf16_tolerance = 0});
    }
  }
  const std::vector<ProductCase> cases = {
      {.m = 16, .n = 16, .k = 16},
      {.m = 64, .n = 96, .k = 128, .bias = true},
      {.m = 96, .n = 64, .k = 80, .bias = true, .epilogue = Epilogue::kGelu},
      {.m = 96, .n = 64, .k = 80, .bias = true, .epilogue = Epilogue::kResidual},
      {.m = 128, .n = 256, .k = 64, .a = kE5M2, .epilogue = Epilogue::kGeluGradient},
      {.m = 256, .n = 144, .k = 512, .a = kE5M2},
      {.m = 80, .n = 48, .k = 1040, .a = kE5M2, .accumulate = true},
  };
  for (const ProductCase& c : cases) {
    // c is bf16 in both runs.
    all.push_back({.name = fmt::format("Float8Matmul{}x{}x{}{}{}{}", c.m, c.n, c.k, Name(c.a), c.bias ? "Bias" : "",
                                       c.accumulate ? "Accumulate" : ""),
                   .run = [c](Workbench& bench, DType working) { return RunProduct(bench, working, c); },
                   .fp32_tolerance = 1.2e-2});
  }
  return all;
}

}  // namespace trireme
