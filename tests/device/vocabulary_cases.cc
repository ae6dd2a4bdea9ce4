#include <fmt/core.h>

#include <algorithm>

#include "device/op_cases.h"

namespace trireme {
namespace {

std::vector<OpResult> RunEmbedding(Workbench& bench, DType working, std::int64_t tokens, std::int64_t columns) {
  constexpr std::int64_t kRows = 11;
  EmbeddingArgs args{.tokens = bench.Integers({tokens}, "tokens", 0, 3 * kRows),
                     .table = bench.Normal(working, {kRows, columns}, "table"),
                     .first_row = kRows,
                     .out = bench.Output(working, {tokens, columns}),
                     .grad_out = bench.Normal(working, {tokens, columns}, "grad_out"),
                     .grad_table = bench.Normal(DType::kFloat32, {kRows, columns}, "grad_table")};
  bench.ops().EmbeddingForward(args);
  bench.ops().EmbeddingBackward(args);
  return {{"out", bench.Read(args.out)}, {"grad_table", bench.Read(args.grad_table)}};
}

std::vector<OpResult> RunPositions(Workbench& bench, DType working) {
  const Tensor x = bench.Normal(working, {23, 37}, "x");
  const Tensor table = bench.Normal(working, {9, 37}, "table");
  const Tensor grad_table = bench.Normal(DType::kFloat32, {9, 37}, "grad_table");
  bench.ops().Run(PositionsBackward<Tensor>{.grad = x, .grad_table = grad_table, .first_token = 5});
  bench.ops().Run(AddPositions<Tensor>{.x = x, .table = table, .first_token = 5});
  return {{"x", bench.Read(x)}, {"grad_table", bench.Read(grad_table)}};
}

// Near the cap the slope is a small difference of a rounded logit.
constexpr double kCapTolerance = 4e-2;

struct CrossEntropyCase {
  std::int64_t tokens;
  std::int64_t columns;
  std::int64_t padding = 0;
  std::int64_t parts = 1;
  float z_loss = 0;
  float cap = 0;
};

// Each part has its own logits; padding sits at the end of the last part.
std::vector<OpResult> RunCrossEntropy(Workbench& bench, DType working, const CrossEntropyCase& c) {
  const std::int64_t vocabulary = c.parts * c.columns - c.padding;
  const Tensor targets = bench.Integers({c.tokens}, "targets", 0, vocabulary);
  const Tensor statistics = bench.Output(DType::kFloat32, {c.parts, 3, c.tokens});
  const Tensor mask = bench.Integers({c.tokens}, "weights", 0, 2);
  const Tensor weights = bench.From(DType::kFloat32, {c.tokens}, bench.Read(mask));
  std::vector<CrossEntropyArgs> parts;
  for (std::int64_t part = 0; part < c.parts; ++part) {
    parts.push_back({.logits = bench.Normal(working, {c.tokens, c.columns}, fmt::format("logits {}", part), 2),
                     .first_column = part * c.columns,
                     .valid_columns = std::clamp<std::int64_t>(vocabulary - part * c.columns, 0, c.columns),
                     .targets = targets,
                     .statistics = statistics,
                     .weights = weights,
                     .scale = 0.125F,
                     .z_loss = c.z_loss,
                     .cap = c.cap,
                     .losses = bench.Output(DType::kFloat32, {c.tokens})});
    if (c.cap > 0) {
      bench.ops().Run(SoftCap<Tensor>{parts.back().logits, c.cap});
    }
    bench.ops().CrossEntropyStatistics(parts.back(), statistics.Rows(part, 1));
  }
  std::vector<OpResult> results{{"statistics", bench.Read(statistics)}};
  for (const CrossEntropyArgs& args : parts) {
    bench.ops().CrossEntropyEvaluation(args);
    results.push_back({"losses", bench.Read(args.losses)});
    bench.ops().CrossEntropyGradient(args);
    results.push_back({"losses again", bench.Read(args.losses)});
    results.push_back({"gradient", bench.Read(args.logits)});
  }
  return results;
}

// Statistics, losses and gradient of a whole vocabulary at once.
std::vector<OpResult> RunWholeCrossEntropy(Workbench& bench, DType working, const CrossEntropyCase& c) {
  const std::int64_t vocabulary = c.columns - c.padding;
  const Tensor mask = bench.Integers({c.tokens}, "weights", 0, 2);
  const CrossEntropyArgs args{.logits = bench.Normal(working, {c.tokens, c.columns}, "logits", 2),
                              .valid_columns = vocabulary,
                              .targets = bench.Integers({c.tokens}, "targets", 0, vocabulary),
                              .statistics = bench.Output(DType::kFloat32, {3, c.tokens}),
                              .weights = bench.From(DType::kFloat32, {c.tokens}, bench.Read(mask)),
                              .scale = 0.125F,
                              .z_loss = c.z_loss,
                              .cap = c.cap,
                              .losses = bench.Output(DType::kFloat32, {c.tokens})};
  if (c.cap > 0) {
    bench.ops().Run(SoftCap<Tensor>{args.logits, c.cap});
  }
  bench.ops().CrossEntropy(args);
  return {{"statistics", bench.Read(args.statistics)},
          {"losses", bench.Read(args.losses)},
          {"gradient", bench.Read(args.logits)}};
}

std::vector<OpResult> RunLossSum(Workbench& bench) {
  const Tensor sums = bench.Output(DType::kFloat32, {2});
  bench.ops().LossSum(bench.Normal(DType::kFloat32, {1001}, "losses", 1, 4),
                      bench.Normal(DType::kFloat32, {1001}, "weights", 0.25F, 1), sums);
  return {{"sums", bench.Read(sums)}};
}

}  // namespace

std::vector<OpCase> VocabularyCases() {
  std::vector<OpCase> all;
  for (const auto& [tokens, columns] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {50, 33}, {301, 128}}) {
    all.push_back({fmt::format("Embedding{}x{}", tokens, columns),
                   [tokens = tokens, columns = columns](Workbench& bench, DType working) {
                     return RunEmbedding(bench, working, tokens, columns);
                   }});
  }
  all.push_back({"Positions", [](Workbench& bench, DType working) { return RunPositions(bench, working); }});
  const std::vector<CrossEntropyCase> cases = {
      {.tokens = 1, .columns = 1},
      {.tokens = 9, .columns = 101},
      {.tokens = 20, .columns = 128, .padding = 27, .z_loss = 1e-2F},
      {.tokens = 7, .columns = 64, .padding = 5, .parts = 3},
      {.tokens = 3, .columns = 8, .padding = 9, .parts = 2},
      {.tokens = 4, .columns = 5003},
      {.tokens = 7, .columns = 64, .padding = 5, .parts = 2, .cap = 1.5F},
  };
  for (const CrossEntropyCase& c : cases) {
    all.push_back({fmt::format("CrossEntropy{}x{}Padding{}Parts{}{}{}", c.tokens, c.columns, c.padding, c.parts,
                               c.z_loss > 0 ? "ZLoss" : "", c.cap > 0 ? "Cap" : ""),
                   [c](Workbench& bench, DType working) { return RunCrossEntropy(bench, working, c); }});
    all.back().bf16_tolerance = c.cap > 0 ? kCapTolerance : all.back().bf16_tolerance;
  }
  for (const CrossEntropyCase& c : {CrossEntropyCase{.tokens = 1, .columns = 1},
                                    {.tokens = 9, .columns = 101},
                                    {.tokens = 20, .columns = 128, .padding = 27, .z_loss = 1e-2F},
                                    {.tokens = 5, .columns = 20000, .padding = 3},
                                    {.tokens = 3, .columns = 60008},
                                    {.tokens = 6, .columns = 72, .padding = 3, .cap = 1.5F}}) {
    all.push_back({fmt::format("WholeCrossEntropy{}x{}Padding{}{}{}", c.tokens, c.columns, c.padding,
                               c.z_loss > 0 ? "ZLoss" : "", c.cap > 0 ? "Cap" : ""),
                   [c](Workbench& bench, DType working) { return RunWholeCrossEntropy(bench, working, c); }});
    all.back().bf16_tolerance = c.cap > 0 ? kCapTolerance : all.back().bf16_tolerance;
  }
  all.push_back({"LossSum", [](Workbench& bench, DType) { return RunLossSum(bench); }});
  return all;
}

}  // namespace trireme
