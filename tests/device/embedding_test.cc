#include <gtest/gtest.h>

#include "device/workbench.h"

namespace trireme {
namespace {

TEST(Embedding, GradientEqualsFiniteDifferences) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  EmbeddingArgs args{.tokens = bench.From(DType::kInt32, {5}, {4, 9, 4, 6, 1}),
                     .table = bench.Normal(kFloat, {4, 3}, "table"),
                     .first_row = 3,
                     .out = bench.Output(kFloat, {5, 3}),
                     .grad_out = bench.Normal(kFloat, {5, 3}, "grad"),
                     .grad_table = bench.Filled(kFloat, {4, 3}, 0)};
  bench.ops().EmbeddingBackward(args);
  ExpectGradient(bench, {.variable = args.table, .gradient = args.grad_table, .loss = [&] {
                           bench.ops().EmbeddingForward(args);
                           return Dot(bench.Read(args.out), bench.Read(args.grad_out));
                         }});
}

TEST(Embedding, TokensOfOtherRanksGiveZero) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const EmbeddingArgs args{.tokens = bench.From(DType::kInt32, {3}, {2, 5, 6}),
                           .table = bench.From(kFloat, {3, 2}, {1, 2, 3, 4, 5, 6}),
                           .first_row = 3,
                           .out = bench.Output(kFloat, {3, 2})};
  bench.ops().EmbeddingForward(args);
  EXPECT_EQ(bench.Read(args.out), (std::vector<float>{0, 0, 5, 6, 0, 0}));
}

TEST(Embedding, SplitTablesAddUpToTheWhole) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Tensor table = bench.Normal(kFloat, {12, 7}, "table");
  const Tensor tokens = bench.Integers({20}, "tokens", 0, 12);
  const Tensor whole = bench.Output(kFloat, {20, 7});
  const Tensor sum = bench.Filled(kFloat, {20, 7}, 0);
  const Tensor part = bench.Output(kFloat, {20, 7});
  bench.ops().EmbeddingForward({.tokens = tokens, .table = table, .out = whole});
  for (const std::int64_t first : {0, 4, 8}) {
    bench.ops().EmbeddingForward({.tokens = tokens, .table = table.Rows(first, 4), .first_row = first, .out = part});
    bench.ops().Add(sum, part);
  }
  EXPECT_EQ(bench.Read(sum), bench.Read(whole));
}

TEST(Positions, GradientEqualsFiniteDifferencesAcrossAWrap) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Tensor x = bench.Normal(kFloat, {7, 3}, "x");
  const Tensor grad = bench.Normal(kFloat, {7, 3}, "grad");
  const Tensor table = bench.Normal(kFloat, {4, 3}, "table");
  const Tensor grad_table = bench.Filled(kFloat, {4, 3}, 0);
  bench.ops().Run(PositionsBackward<Tensor>{.grad = grad, .grad_table = grad_table, .first_token = 6});
  ExpectGradient(bench, {.variable = table, .gradient = grad_table, .loss = [&] {
                           const Tensor sum = bench.Copy(x);
                           bench.ops().Run(AddPositions<Tensor>{.x = sum, .table = table, .first_token = 6});
                           return Dot(bench.Read(sum), bench.Read(grad));
                         }});
}

}  // namespace
}  // namespace trireme
