#include "measure/rate_fit.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(RateFit, FindsTheLawThatMadeTheSamples) {
  const RateLaw made{.call = 4e-6, .rate = 2e9};
  std::vector<WorkSample> samples;
  for (const double work : {1e3, 1e4, 1e6}) {
    samples.push_back({work, made.Seconds(work)});
  }
  const RateLaw fit = FitRate(samples);
  EXPECT_NEAR(fit.call / made.call, 1, 1e-6);
  EXPECT_NEAR(fit.rate / made.rate, 1, 1e-6);
  EXPECT_NEAR(ErrorOf(fit, samples), 0, 1e-6);
}

TEST(RateFit, FindsAProductsFourTerms) {
  const ProductLaw made{.call = 5e-6, .flops = 2e11, .operands = 3e9, .results = 6e9};
  std::vector<ProductSample> samples;
  for (const double m : {64.0, 512.0, 2048.0}) {
    for (const double n : {128.0, 1024.0}) {
      for (const double k : {96.0, 768.0}) {
        samples.push_back({.m = m, .n = n, .k = k, .filled = 0.5, .seconds = made.Seconds(m, n, k, 0.5)});
      }
    }
  }
  const ProductLaw fit = FitProduct(samples);
  EXPECT_NEAR(fit.call / made.call, 1, 1e-3);
  EXPECT_NEAR(fit.flops / made.flops, 1, 1e-3);
  EXPECT_NEAR(fit.operands / made.operands, 1, 1e-3);
  EXPECT_NEAR(fit.results / made.results, 1, 1e-3);
}

// More work in less time: only a constant is left, never a negative price.
TEST(RateFit, NeverGivesANegativePrice) {
  const std::vector<WorkSample> samples = {{1e3, 3e-6}, {1e6, 2e-6}};
  const RateLaw fit = FitRate(samples);
  EXPECT_GT(fit.call, 0);
  EXPECT_EQ(fit.rate, 0);
  EXPECT_GT(ErrorOf(fit, samples), 0.1);
}

TEST(RateFit, OneSampleIsItsOwnLaw) {
  const std::vector<WorkSample> samples = {{1e6, 1e-3}};
  EXPECT_NEAR(FitRate(samples).Seconds(1e6), 1e-3, 1e-9);
}

}  // namespace
}  // namespace trireme
