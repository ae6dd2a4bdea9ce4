#include <fmt/core.h>

#include <limits>
#include <utility>

#include "base/float8.h"
#include "device/op_cases.h"

namespace trireme {
namespace {

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

// A tensor that an operation made, with the magnitude that it noted.
struct Noted {
  Tensor made;
  Tensor largest;
};

// Quantize with a noted magnitude and one that looks for it must agree on every device, to the bit.
std::vector<OpResult> CompareNoted(Workbench& bench, const Noted& noted, DType format) {
  const Float8Copy plain = Quantized(bench, noted.made, format);
  const Float8Copy fused{bench.Output(format, noted.made.shape),
                         bench.Output(format, {noted.made.shape[1], noted.made.shape[0]}),
                         bench.Output(DType::kFloat32, {1})};
  bench.ops().Quantize({.from = noted.made,
                        .rows = fused.rows,
                        .columns = fused.columns,
                        .scale = fused.scale,
                        .largest = noted.largest});
  const auto difference = [&](const Tensor& one, const Tensor& other) {
    std::vector<float> values = bench.Read(one);
    const std::vector<float> others = bench.Read(other);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] -= others[i];
    }
    return values;
  };
  return {{"rows", difference(plain.rows, fused.rows)},
          {"columns", difference(plain.columns, fused.columns)},
          {"scale", difference(plain.scale, fused.scale)}};
}

Noted NotedOutput(Workbench& bench, DType dtype, const Shape& shape) {
  return {bench.Output(dtype, shape), bench.Output(DType::kFloat32, {kLargestSlots})};
}

std::vector<OpResult> RunNotedByNorm(Workbench& bench, DType working, const Shape& shape, bool backward) {
  const Noted noted = NotedOutput(bench, working, shape);
  const Tensor x = bench.Normal(working, shape, "x");
  const Tensor gamma = bench.Normal(working, {shape[1]}, "gamma");
  const Tensor statistics = bench.Output(DType::kFloat32, {2, shape[0]});
  const Tensor normed = backward ? bench.Output(working, shape) : noted.made;
  bench.ops().ResidualNormForward({.x = x,
                                   .gamma = gamma,
                                   .normed = normed,
                                   .statistics = statistics,
                                   .largest = backward ? Tensor{} : noted.largest});
  if (backward) {
    bench.ops().NormBackward({.grad_normed = bench.Normal(working, shape, "gradient"),
                              .x = x,
                              .statistics = statistics,
                              .gamma = gamma,
                              .grad_x = noted.made,
                              .grad_gamma = bench.Output(DType::kFloat32, {shape[1]}),
                              .largest = noted.largest});
  }
  return CompareNoted(bench, noted, kE4M3);
}

std::vector<OpResult> RunNotedByActivation(Workbench& bench, DType working, ActivationKind kind, bool backward) {
  const Shape narrow{96, 272};
  const Shape wide{narrow[0], (IsGated(kind) ? 2 : 1) * narrow[1]};
  const Noted noted = NotedOutput(bench, working, backward ? wide : narrow);
  const Tensor z = bench.Normal(working, wide, "z");
  if (backward) {
    bench.ops().Run(ActivationBackward<Tensor>{.kind = kind,
                                               .grad_out = bench.Normal(working, narrow, "gradient"),
                                               .from = z,
                                               .grad_from = noted.made,
                                               .largest = noted.largest});
  } else {
    bench.ops().Run(ActivationForward<Tensor>{.kind = kind, .from = z, .to = noted.made, .largest = noted.largest});
  }
  return CompareNoted(bench, noted, kE5M2);
}

std::vector<OpResult> RunNotedByProduct(Workbench& bench, DType working) {
  const Float8Copy a = Quantized(bench, bench.Normal(working, {128, 64}, "a", 40), kE5M2);
  const Float8Copy b = Quantized(bench, bench.Normal(working, {256, 64}, "b", 1e-3F), kE4M3);
  const Noted noted = NotedOutput(bench, DType::kBFloat16, {128, 256});
  bench.ops().Matmul({.a = a.rows,
                      .b = b.rows,
                      .c = noted.made,
                      .transpose_b = true,
                      .epilogue = Epilogue::kGeluGradient,
                      .auxiliary = bench.Normal(DType::kBFloat16, {128, 256}, "z"),
                      .scale_a = a.scale,
                      .scale_b = b.scale,
                      .largest = noted.largest});
  return CompareNoted(bench, noted, kE5M2);
}

// A guess of the scale changes nothing, whatever it is, and the scale is left in its place.
std::vector<OpResult> RunGuess(Workbench& bench, DType working, const Shape& shape, float guess) {
  const Tensor from = bench.Normal(working, shape, "from", 3);
  const Float8Copy plain = Quantized(bench, from, kE4M3);
  const Float8Copy guessed{bench.Output(kE4M3, shape), bench.Output(kE4M3, {shape[1], shape[0]}),
                           bench.Output(DType::kFloat32, {1})};
  const Tensor place = bench.Output(DType::kFloat32, {1});
  const Tensor sums = bench.Output(DType::kFloat32, {shape[1]});
  std::vector<OpResult> results;
  bench.ops().Fill(place, guess);
  for (const std::string round : {"first", "again"}) {  // the second guess is right
    bench.ops().Fill(sums, 0);
    bench.ops().Quantize({.from = from,
                          .rows = guessed.rows,
                          .columns = guessed.columns,
                          .scale = guessed.scale,
                          .column_sums = sums,
                          .guess = place});
    const auto add = [&](const std::string& name, const Tensor& one, const Tensor& other) {
      std::vector<float> values = bench.Read(one);
      const std::vector<float> others = bench.Read(other);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] -= others[i];
      }
      results.push_back({round + " " + name, std::move(values)});
    };
    add("rows", plain.rows, guessed.rows);
    add("columns", plain.columns, guessed.columns);
    add("scale", plain.scale, guessed.scale);
  }
  return results;
}

// The sums that a copy adds up are those of BiasGradient.
std::vector<OpResult> RunColumnSums(Workbench& bench, DType working, const Shape& shape, bool guesses) {
  const Tensor from = bench.Normal(working, shape, "from");
  const Tensor sums = bench.Normal(DType::kFloat32, {shape[1]}, "sums");
  const Tensor columns = bench.Output(kE5M2, {shape[1], shape[0]});
  const Tensor scale = bench.Output(DType::kFloat32, {1});
  const Tensor guess = bench.Normal(DType::kFloat32, {1}, "guess");
  bench.ops().Quantize(
      {.from = from, .columns = columns, .scale = scale, .column_sums = sums, .guess = guesses ? guess : Tensor{}});
  return {{"sums", bench.Read(sums)}};
}

std::vector<OpCase> NotedCases() {
  std::vector<OpCase> all;
  const auto add = [&](const std::string& name, std::function<std::vector<OpResult>(Workbench&, DType)> run) {
    all.push_back({.name = name, .run = std::move(run), .fp32_tolerance = 0, .bf16_tolerance = 0});
  };
  for (const bool backward : {false, true}) {
    const std::string suffix = backward ? "Backward" : "Forward";
    for (const Shape& shape : {Shape{64, 128}, Shape{160, 2048}, Shape{9, 50}}) {
      add(fmt::format("NotedByNorm{}{}x{}", suffix, shape[0], shape[1]),
          [=](Workbench& bench, DType working) { return RunNotedByNorm(bench, working, shape, backward); });
    }
    for (const auto& [name, kind] :
         {std::pair{"Gelu", ActivationKind::kGelu}, std::pair{"SwiGlu", ActivationKind::kSwiGlu}}) {
      add(fmt::format("NotedBy{}{}", name, suffix), [kind = kind, backward](Workbench& bench, DType working) {
        return RunNotedByActivation(bench, working, kind, backward);
      });
    }
  }
  add("NotedByProduct", RunNotedByProduct);
  for (const Shape& shape : {Shape{16, 16}, Shape{144, 400}, Shape{7, 33}}) {
    for (const auto& [name, guess] :
         {std::pair{"Zero", 0.0F}, std::pair{"Small", 0.03125F}, std::pair{"Large", 1024.0F},
          std::pair{"NoNumber", std::numeric_limits<float>::quiet_NaN()}}) {
      add(fmt::format("Guess{}x{}Of{}", shape[0], shape[1], name),
          [shape, guess = guess](Workbench& bench, DType working) { return RunGuess(bench, working, shape, guess); });
    }
  }
  // More tiles than a GPU has blocks at once.
  add("GuessOfManyTiles", [](Workbench& bench, DType working) { return RunGuess(bench, working, {40000, 16}, 1); });
  for (const Shape& shape : {Shape{16, 16}, Shape{144, 400}, Shape{1040, 256}, Shape{7, 33}}) {
    for (const bool guesses : {false, true}) {
      all.push_back({.name = fmt::format("ColumnSums{}x{}{}", shape[0], shape[1], guesses ? "Guessed" : ""),
                     .run = [shape, guesses](Workbench& bench, DType working) {
                       return RunColumnSums(bench, working, shape, guesses);
                     }});
    }
  }
  return all;
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
  std::vector<OpCase> all = NotedCases();
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
