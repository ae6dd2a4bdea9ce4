#include <fmt/core.h>

#include "device/op_cases.h"

namespace trireme {
namespace {

struct NormCase {
  std::int64_t rows;
  std::int64_t columns;
  NormKind kind = NormKind::kLayer;
  bool branch = false;
  bool bias = false;
  bool beta = true;
  float dropout = 0;
  bool residual = false;
  bool norm = true;
  bool remade = false;
};

std::string NameOf(const NormCase& c) {
  return fmt::format("{}Norm{}x{}{}{}{}{}{}{}{}", c.kind == NormKind::kRms ? "Rms" : "Layer", c.rows, c.columns,
                     c.branch ? "Branch" : "", c.bias ? "Bias" : "", c.beta ? "Beta" : "",
                     c.dropout > 0 ? "Dropout" : "", c.residual ? "Residual" : "", c.norm ? "" : "SumOnly",
                     c.remade ? "Recomputed" : "");
}

std::vector<OpResult> RunForward(Workbench& bench, DType working, const NormCase& c) {
  const Shape shape{c.rows, c.columns};
  ResidualNormArgs args{.x = bench.Normal(working, shape, "x"), .kind = c.kind};
  if (c.branch) {
    args.branch = bench.Normal(working, shape, "branch");
    args.sum = bench.Output(working, shape);
    args.dropout = {.probability = c.dropout, .key = 77, .first_element = 1000003};
  }
  if (c.bias) {
    args.bias = bench.Normal(working, {c.columns}, "bias");
  }
  if (c.norm) {
    args.gamma = bench.Normal(working, {c.columns}, "gamma", 0.25F, 1);
    args.normed = bench.Output(working, shape);
    args.statistics = bench.Output(DType::kFloat32, {2, c.rows});
    if (c.beta) {
      args.beta = bench.Normal(working, {c.columns}, "beta");
    }
  }
  bench.ops().ResidualNormForward(args);
  std::vector<OpResult> results;
  if (c.branch) {
    results.push_back({"sum", bench.Read(args.sum)});
  }
  if (c.norm) {
    results.push_back({"normed", bench.Read(args.normed)});
    results.push_back({"statistics", bench.Read(args.statistics)});
  }
  return results;
}

std::vector<OpResult> RunBackward(Workbench& bench, DType working, const NormCase& c) {
  const Shape shape{c.rows, c.columns};
  NormBackwardArgs args{.grad_normed = bench.Normal(working, shape, "grad"),
                        .x = bench.Normal(working, shape, "x"),
                        .statistics = bench.Output(DType::kFloat32, {2, c.rows}),
                        .kind = c.kind,
                        .gamma = bench.Normal(working, {c.columns}, "gamma", 0.25F, 1),
                        .grad_x = bench.Output(working, shape),
                        .grad_gamma = bench.Normal(DType::kFloat32, {c.columns}, "grad_gamma")};
  if (c.residual) {
    args.grad_residual = bench.Normal(working, shape, "grad_residual");
  }
  if (c.beta) {
    args.grad_beta = bench.Normal(DType::kFloat32, {c.columns}, "grad_beta");
  }
  bench.ops().ResidualNormForward({.x = args.x,
                                   .kind = c.kind,
                                   .gamma = args.gamma,
                                   .normed = bench.Output(working, shape),
                                   .statistics = args.statistics});
  if (c.remade) {
    args.normed = args.grad_normed;
    if (c.beta) {
      args.beta = bench.Normal(working, {c.columns}, "beta");
    }
  }
  bench.ops().NormBackward(args);
  std::vector<OpResult> results{{"grad_x", bench.Read(args.grad_x)}, {"grad_gamma", bench.Read(args.grad_gamma)}};
  if (c.beta) {
    results.push_back({"grad_beta", bench.Read(args.grad_beta)});
  }
  if (c.remade) {
    results.push_back({"normed", bench.Read(args.normed)});
  }
  return results;
}

std::vector<OpResult> RunHeadNorm(Workbench& bench, DType working, HeadNormArgs args, std::int64_t rows) {
  args.x = bench.Normal(working, {rows, args.width()}, "x");
  args.query_gain = bench.Normal(working, {args.group_width(0)}, "query gain", 0.25F, 1);
  args.key_gain = bench.Normal(working, {args.group_width(args.groups() - 1)}, "key gain", 0.25F, 1);
  args.sums = bench.Output(DType::kFloat32, {rows, args.groups()});
  args.out = bench.Output(working, args.x.shape);
  bench.ops().HeadNormSums(args);
  bench.ops().HeadNormForward(args);
  args.grad_out = bench.Normal(working, args.x.shape, "grad");
  args.products = bench.Output(DType::kFloat32, args.sums.shape);
  args.grad_x = bench.Output(working, args.x.shape);
  args.grad_query_gain = bench.Normal(DType::kFloat32, args.query_gain.shape, "grad query gain");
  args.grad_key_gain = bench.Normal(DType::kFloat32, args.key_gain.shape, "grad key gain");
  bench.ops().HeadNormProducts(args);
  bench.ops().HeadNormBackward(args);
  return {{"out", bench.Read(args.out)},
          {"sums", bench.Read(args.sums)},
          {"grad_x", bench.Read(args.grad_x)},
          {"grad_query_gain", bench.Read(args.grad_query_gain)},
          {"grad_key_gain", bench.Read(args.grad_key_gain)}};
}

}  // namespace

std::vector<OpCase> NormCases() {
  const std::vector<NormCase> forward = {
      {.rows = 1, .columns = 1},
      {.rows = 5, .columns = 33},
      {.rows = 9, .columns = 768, .branch = true, .bias = true, .dropout = 0.1F},
      {.rows = 3, .columns = 7, .branch = true, .bias = true, .dropout = 0.5F},
      {.rows = 40, .columns = 130, .branch = true, .beta = false},
      {.rows = 7, .columns = 1024, .kind = NormKind::kRms, .beta = false},
      {.rows = 6, .columns = 129, .kind = NormKind::kRms, .branch = true, .beta = false},
      {.rows = 6, .columns = 64, .branch = true, .bias = true, .dropout = 0.25F, .norm = false},
      {.rows = 2, .columns = 5120},
  };
  const std::vector<NormCase> backward = {
      // With a residual: the norm alone of two columns has a gradient of almost 0, of which rounding is a large share.
      {.rows = 1, .columns = 2, .residual = true},
      {.rows = 70, .columns = 33, .residual = true},
      {.rows = 300, .columns = 768, .residual = true},
      {.rows = 13, .columns = 1024, .kind = NormKind::kRms, .beta = false},
      {.rows = 5, .columns = 131, .kind = NormKind::kRms, .beta = false, .residual = true},
      {.rows = 3, .columns = 5120},
      {.rows = 71, .columns = 768, .residual = true, .remade = true},
      {.rows = 13, .columns = 33, .kind = NormKind::kRms, .beta = false, .remade = true},
  };
  std::vector<OpCase> all;
  for (const NormCase& c : forward) {
    all.push_back({NameOf(c), [c](Workbench& bench, DType working) { return RunForward(bench, working, c); }});
  }
  for (const NormCase& c : backward) {
    all.push_back(
        {NameOf(c) + "Backward", [c](Workbench& bench, DType working) { return RunBackward(bench, working, c); }});
  }
  const HeadNormArgs each{.heads = 4, .kv_heads = 2, .head_size = 40};
  const HeadNormArgs together{.heads = 3, .kv_heads = 3, .head_size = 7, .together = true, .gain_offset = 1};
  all.push_back(
      {"HeadNorm", [each](Workbench& bench, DType working) { return RunHeadNorm(bench, working, each, 37); }});
  all.push_back({"HeadNormTogether",
                 [together](Workbench& bench, DType working) { return RunHeadNorm(bench, working, together, 300); }});
  all.push_back({"Dropout", [](Workbench& bench, DType working) {
                   const Tensor in = bench.Normal(working, {77, 13}, "in");
                   const Tensor out = bench.Output(working, {77, 13});
                   bench.ops().ApplyDropout(out, in, {.probability = 0.3F, .key = 5, .first_element = 1LL << 33});
                   return std::vector<OpResult>{{"out", bench.Read(out)}};
                 }});
  return all;
}

}  // namespace trireme
