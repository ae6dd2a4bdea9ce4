#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "device/workbench.h"

namespace trireme {
namespace {

using testing::ElementsAre;

class Experts : public testing::Test {
 protected:
  std::vector<float> Chosen(const std::vector<float>& logits, std::int64_t tokens, std::int64_t chosen,
                            const std::vector<float>& bias = {}) {
    const auto experts = static_cast<std::int64_t>(logits.size()) / tokens;
    const Tensor to = bench_.Filled(DType::kInt32, {tokens, chosen}, -1);
    weights_ = bench_.Output(kFloat, {tokens, chosen});
    bench_.ops().Run(Route<Tensor>{.router = router_,
                                   .logits = bench_.From(kFloat, {tokens, experts}, logits),
                                   .bias = bias.empty() ? Tensor{} : bench_.From(kFloat, {experts}, bias),
                                   .chosen = to,
                                   .weights = weights_});
    return bench_.Read(to);
  }

  std::unique_ptr<Device> cpu_ = CpuForTest();
  Workbench bench_{*cpu_};
  RouterChoices router_;
  Tensor weights_;
};

TEST_F(Experts, OfEqualScoresTheLowerExpertIsChosen) {
  EXPECT_THAT(Chosen({1, 1, 1, 1, 0, 2, 2, 0}, 2, 2), ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(Chosen({0, 3, 1, 3}, 1, 3), ElementsAre(1, 3, 2));
}

TEST_F(Experts, NotANumberIsChosenLast) {
  const float nan = std::nanf("");
  EXPECT_THAT(Chosen({nan, 1, 2, nan}, 1, 2), testing::Each(testing::AllOf(testing::Ge(0), testing::Le(3))));
  router_.score = RouterScore::kSigmoid;  // one score does not touch the others
  EXPECT_THAT(Chosen({nan, 1, 2, nan}, 1, 3), ElementsAre(2, 1, 0));
  EXPECT_THAT(Chosen({-std::numeric_limits<float>::infinity(), 0, 0, 0}, 1, 4), ElementsAre(1, 2, 3, 0));
}

TEST_F(Experts, TheBiasChoosesAndDoesNotWeigh) {
  router_ = {.score = RouterScore::kSigmoid, .renormalize = true};
  EXPECT_THAT(Chosen({0, 0, 2}, 1, 2, {0, 1, 0}), ElementsAre(1, 2));
  const double high = 1 / (1 + std::exp(-2.0));
  const std::vector<float> weights = bench_.Read(weights_);
  EXPECT_NEAR(weights[0], 0.5 / (0.5 + high), 1e-6);
  EXPECT_NEAR(weights[1], high / (0.5 + high), 1e-6);
}

TEST_F(Experts, OneExpertHasTheWeightOne) {
  EXPECT_THAT(Chosen({3.7F, -120, 0}, 3, 1), ElementsAre(0, 0, 0));
  EXPECT_THAT(bench_.Read(weights_), ElementsAre(1, 1, 1));
}

TEST_F(Experts, RowsAreOrderedByExpertAndThenByToken) {
  const Tensor chosen = bench_.From(DType::kInt32, {3, 2}, {2, 0, 0, 3, 3, 0});
  const Tensor order = bench_.Filled(DType::kInt32, {6}, -1);
  const Tensor positions = bench_.Filled(DType::kInt32, {3, 2}, -1);
  const Tensor offsets = bench_.Filled(DType::kInt32, {5}, -1);
  bench_.ops().Run(OrderRows<Tensor>{.chosen = chosen, .order = order, .positions = positions, .offsets = offsets});
  EXPECT_THAT(bench_.Read(order), ElementsAre(1, 2, 5, 0, 3, 4));
  EXPECT_THAT(bench_.Read(positions), ElementsAre(3, 0, 1, 4, 5, 2));
  EXPECT_THAT(bench_.Read(offsets), ElementsAre(0, 3, 3, 4, 6));
}

// Above 256 tokens a count in bf16 no longer grows.
TEST_F(Experts, CountsAreExactAndLeavePaddingOut) {
  constexpr std::int64_t kTokenCount = 1000;
  std::vector<float> chosen;
  std::vector<float> weights;
  for (std::int64_t token = 0; token < 2 * kTokenCount; ++token) {
    chosen.push_back(token < 2 * kTokenCount - 1 ? 2 : 0);
    weights.push_back(token % kTokenCount < 300 && token < kTokenCount ? 0.0F : 0.5F);
  }
  const Tensor counts = bench_.Output(kFloat, {2, 4});
  bench_.ops().Run(CountChosen<Tensor>{.chosen = bench_.From(DType::kInt32, {2 * kTokenCount, 1}, chosen),
                                       .token_weights = bench_.From(kFloat, {2 * kTokenCount}, weights),
                                       .counts = counts});
  EXPECT_THAT(bench_.Read(counts), ElementsAre(0, 0, 700, 700, 1, 0, 999, 1000));
}

TEST_F(Experts, SumsOfRowsAreRoundedOnce) {
  // 1 + 2^-8 + 2^-8 is representable in bf16, 1 + 2^-8 rounded first is 1.
  const float small = std::ldexp(1.0F, -8);
  const Tensor rows = bench_.From(DType::kBFloat16, {3, 1}, {1, small, small});
  const Tensor to = bench_.Output(DType::kBFloat16, {1, 1});
  bench_.ops().Run(
      CombineRows<Tensor>{.rows = rows, .positions = bench_.From(DType::kInt32, {1, 3}, {0, 1, 2}), .to = to});
  EXPECT_THAT(bench_.Read(to), ElementsAre(1 + 2 * small));
}

struct RouterCase {
  RouterChoices router;
  float balance;
  float z;
};

class RouterGradients : public testing::TestWithParam<RouterCase> {};
INSTANTIATE_TEST_SUITE_P(
    Experts, RouterGradients,
    testing::Values(RouterCase{{}, 0, 0}, RouterCase{{.renormalize = true, .scale = 1.5F}, 0, 0},
                    RouterCase{{.score = RouterScore::kSigmoid}, 0, 0},
                    RouterCase{{.score = RouterScore::kSigmoid, .renormalize = true, .scale = 2.5F}, 0, 0},
                    RouterCase{{}, 0.7F, 0}, RouterCase{{}, 0, 0.3F},
                    RouterCase{{.score = RouterScore::kSigmoid}, 0.7F, 0.3F}));

// The losses that RouteBackward's comment defines, in double.
double LossesOf(const RouterCase& one, const std::vector<float>& logits, const std::vector<float>& counts,
                const std::vector<float>& token_weights, std::int64_t experts, std::int64_t chosen) {
  double loss = 0;
  for (std::size_t token = 0; token < token_weights.size(); ++token) {
    const float* row = logits.data() + token * static_cast<std::size_t>(experts);
    std::vector<double> scores;
    double exponentials = 0;
    for (std::int64_t e = 0; e < experts; ++e) {
      exponentials += std::exp(static_cast<double>(row[e]));
      scores.push_back(one.router.score == RouterScore::kSoftmax ? std::exp(static_cast<double>(row[e]))
                                                                 : 1 / (1 + std::exp(-static_cast<double>(row[e]))));
    }
    double sum = 0;
    for (const double score : scores) {
      sum += score;
    }
    for (std::int64_t e = 0; e < experts; ++e) {
      const auto at = static_cast<std::size_t>(e);
      const double frequency = static_cast<double>(experts) * counts[at] /
                               (static_cast<double>(chosen) * counts[static_cast<std::size_t>(experts)]);
      loss += static_cast<double>(one.balance) * token_weights[token] * frequency * scores[at] / sum;
    }
    loss += static_cast<double>(one.z) * token_weights[token] * std::pow(std::log(exponentials), 2);
  }
  return loss;
}

TEST_P(RouterGradients, EqualFiniteDifferences) {
  const RouterCase& one = GetParam();
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  constexpr std::int64_t kTokenCount = 4;
  constexpr std::int64_t kExperts = 5;
  constexpr std::int64_t kChosen = 2;
  const Tensor logits = bench.Normal(kFloat, {kTokenCount, kExperts}, "logits");
  const Tensor chosen = bench.Filled(DType::kInt32, {kTokenCount, kChosen}, -1);
  const Tensor weights = bench.Output(kFloat, {kTokenCount, kChosen});
  const Tensor grad = bench.Normal(kFloat, {kTokenCount, kChosen}, "grad");
  const Tensor token_weights = bench.From(kFloat, {kTokenCount}, {1, 0.5F, 0, 2});
  const Tensor counts = bench.Output(kFloat, {1, kExperts + 1});
  bench.ops().Run(Route<Tensor>{.router = one.router, .logits = logits, .chosen = chosen, .weights = weights});
  bench.ops().Run(CountChosen<Tensor>{.chosen = chosen, .token_weights = token_weights, .counts = counts});
  const Tensor grad_logits = bench.Output(kFloat, logits.shape);
  bench.ops().Run(RouteBackward<Tensor>{.router = one.router,
                                        .grad_weights = grad,
                                        .logits = logits,
                                        .chosen = chosen,
                                        .counts = counts,
                                        .token_weights = token_weights,
                                        .grad_logits = grad_logits,
                                        .balance = one.balance,
                                        .z = one.z});
  // The choice is kept, so that no difference steps over one.
  ExpectGradient(
      bench,
      {.variable = logits, .gradient = grad_logits, .loss = [&] {
         bench.ops().Run(Route<Tensor>{.router = one.router, .logits = logits, .kept = chosen, .weights = weights});
         return Dot(bench.Read(weights), bench.Read(grad)) +
                LossesOf(one, bench.Read(logits), bench.Read(counts), bench.Read(token_weights), kExperts, kChosen);
       }});
}

TEST_F(Experts, WeightedActivationsGradientsAreThoseOfFiniteDifferences) {
  const Tensor z = bench_.Normal(kFloat, {4, 10}, "z");
  const Tensor weights = bench_.Normal(kFloat, {2, 2}, "weights");
  const Tensor order = bench_.From(DType::kInt32, {4}, {2, 0, 3, 1});
  const Tensor grad = bench_.Normal(kFloat, {4, 5}, "grad");
  const Tensor out = bench_.Output(kFloat, {4, 5});
  const Tensor grad_z = bench_.Output(kFloat, {4, 10});
  const Tensor grad_weights = bench_.Output(kFloat, {2, 2});
  bench_.ops().Run(WeightedActivationBackward<Tensor>{.grad_out = grad,
                                                      .from = z,
                                                      .weights = weights,
                                                      .order = order,
                                                      .grad_from = grad_z,
                                                      .grad_weights = grad_weights});
  const auto loss = [&] {
    bench_.ops().Run(WeightedActivation<Tensor>{.from = z, .weights = weights, .order = order, .to = out});
    return Dot(bench_.Read(out), bench_.Read(grad));
  };
  ExpectGradient(bench_, {.variable = z, .gradient = grad_z, .loss = loss});
  ExpectGradient(bench_, {.variable = weights, .gradient = grad_weights, .loss = loss});
}

TEST_F(Experts, AnExpertWithoutRowsGetsAGradientOfZeros) {
  const Tensor gradient = bench_.Output(kFloat, {3, 2, 1});
  bench_.ops().GroupedMatmul({.product = GroupedProduct::kWeightGradient,
                              .a = bench_.From(kFloat, {2, 2}, {1, 2, 3, 4}),
                              .b = bench_.From(kFloat, {2, 1}, {10, 100}),
                              .c = gradient,
                              .offsets = bench_.From(DType::kInt32, {4}, {0, 0, 2, 2})});
  EXPECT_THAT(bench_.Read(gradient), ElementsAre(0, 0, 310, 420, 0, 0));
}

TEST_F(Experts, ProductsOfGroupsCountAllRows) {
  const std::int64_t before = bench_.ops().flops().matmul;
  bench_.ops().GroupedMatmul({.a = bench_.Filled(kFloat, {6, 4}, 1),
                              .b = bench_.Filled(kFloat, {2, 3, 4}, 1),
                              .c = bench_.Output(kFloat, {6, 3}),
                              .offsets = bench_.From(DType::kInt32, {3}, {0, 1, 6})});
  EXPECT_EQ(bench_.ops().flops().matmul - before, 2 * 6 * 4 * 3);
}

}  // namespace
}  // namespace trireme
