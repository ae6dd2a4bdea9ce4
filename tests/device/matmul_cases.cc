#include <fmt/core.h>

#include "device/op_cases.h"

namespace trireme {
namespace {

struct MatmulCase {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  bool bias = false;
  bool float_out = false;
  Epilogue epilogue = Epilogue::kNone;
};

std::vector<OpResult> RunMatmul(Workbench& bench, DType working, const MatmulCase& c) {
  const DType out = c.float_out ? DType::kFloat32 : working;
  const MatmulArgs args{
      .a = bench.Normal(working, c.transpose_a ? Shape{c.k, c.m} : Shape{c.m, c.k}, "a"),
      .b = bench.Normal(working, c.transpose_b ? Shape{c.n, c.k} : Shape{c.k, c.n}, "b", 0.25F),
      .c = c.accumulate ? bench.Normal(out, {c.m, c.n}, "c") : bench.Output(out, {c.m, c.n}),
      .transpose_a = c.transpose_a,
      .transpose_b = c.transpose_b,
      .accumulate = c.accumulate,
      .epilogue = c.epilogue,
  };
  return MultiplyWithEpilogue(bench, working, c.bias, args);
}

std::string NameOf(const MatmulCase& c) {
  constexpr const char* kEpilogues[] = {"", "Gelu", "GeluGradient", "Residual"};
  return fmt::format("Matmul{}x{}x{}{}{}{}{}{}{}", c.m, c.n, c.k, c.transpose_a ? "TransposeA" : "",
                     c.transpose_b ? "TransposeB" : "", c.accumulate ? "Accumulate" : "", c.bias ? "Bias" : "",
                     c.float_out ? "FloatOut" : "", kEpilogues[static_cast<int>(c.epilogue)]);
}

}  // namespace

std::vector<OpResult> MultiplyWithEpilogue(Workbench& bench, DType working, bool bias, MatmulArgs args) {
  if (bias) {
    args.bias = bench.Normal(working, {args.c.shape[1]}, "bias");
  }
  if (args.epilogue == Epilogue::kGelu) {
    args.auxiliary = bench.Output(args.c.dtype, args.c.shape);
  } else if (args.epilogue != Epilogue::kNone) {
    args.auxiliary = bench.Normal(args.c.dtype, args.c.shape, "auxiliary");
  }
  bench.ops().Matmul(args);
  std::vector<OpResult> results{{"c", bench.Read(args.c)}};
  if (args.epilogue == Epilogue::kGelu) {
    results.push_back({"auxiliary", bench.Read(args.auxiliary)});
  }
  return results;
}

std::vector<OpCase> MatmulCases() {
  const std::vector<MatmulCase> cases = {
      {.m = 1, .n = 1, .k = 1},
      {.m = 1, .n = 17, .k = 33, .transpose_b = true, .bias = true},
      {.m = 7, .n = 5, .k = 3, .transpose_a = true},
      {.m = 64, .n = 96, .k = 128, .transpose_b = true, .bias = true},
      {.m = 96, .n = 64, .k = 72, .transpose_b = true, .bias = true, .epilogue = Epilogue::kGelu},
      {.m = 33, .n = 65, .k = 31, .transpose_b = true, .bias = true, .epilogue = Epilogue::kGelu},
      {.m = 64, .n = 64, .k = 96, .transpose_b = true, .epilogue = Epilogue::kGelu},
      {.m = 64, .n = 128, .k = 48, .epilogue = Epilogue::kGeluGradient},
      {.m = 31, .n = 63, .k = 129, .epilogue = Epilogue::kGeluGradient},
      {.m = 64, .n = 96, .k = 128, .transpose_b = true, .bias = true, .epilogue = Epilogue::kResidual},
      {.m = 33, .n = 65, .k = 31, .transpose_b = true, .epilogue = Epilogue::kResidual},
      {.m = 80, .n = 48, .k = 64, .transpose_a = true, .accumulate = true, .float_out = true},
      {.m = 37, .n = 130, .k = 301, .transpose_a = true, .accumulate = true, .float_out = true},
      {.m = 256, .n = 128, .k = 4096, .transpose_a = true, .float_out = true},
      {.m = 97, .n = 129, .k = 515, .transpose_b = true, .float_out = true},
      {.m = 24, .n = 40, .k = 56, .transpose_a = true, .transpose_b = true},
      {.m = 40, .n = 24, .k = 16, .accumulate = true},
      {.m = 130, .n = 200, .k = 260},
  };
  std::vector<OpCase> all;
  for (const MatmulCase& c : cases) {
    all.push_back({NameOf(c), [c](Workbench& bench, DType working) { return RunMatmul(bench, working, c); }});
  }
  return all;
}

}  // namespace trireme
