// Models with experts on one rank: what one expert, equal, permuted and idle experts must be, and finite differences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "nn/model_bench.h"

namespace trireme {
namespace {

constexpr Recompute kRecomputes[] = {Recompute::kNone, Recompute::kLight, Recompute::kSelective, Recompute::kFull};

RunConfig Dense() { return OneRankRun("llama"); }

RunConfig WithExperts(const ExpertsConfig& experts) {
  RunConfig config = Dense();
  config.model.experts = experts;
  config.model = Completed(config.model, true);
  Validate(config, 1);
  return config;
}

// The parameter of a block, by its name there.
int Row(const ModelBench& bench, std::int64_t layer, std::string_view name) {
  const int row = bench.table().InBlock(layer, name);
  EXPECT_GE(row, 0) << name;
  return row;
}

// Gives every expert the weights of the dense model's feed-forward part, and all else what the dense model has.
void CopyDense(ModelBench& dense, ModelBench& sparse) {
  for (std::size_t row = 0; row < dense.table().rows().size(); ++row) {
    const std::string& name = dense.table().rows()[row].name;
    const auto at = name.find("mlp.in.weight");
    const auto out = name.find("mlp.out.weight");
    std::string there = name;
    if (at != std::string::npos) {
      there.replace(at, 3, "experts");
    } else if (out != std::string::npos) {
      there.replace(out, 3, "experts");
    }
    std::vector<float>& to = sparse.weight(sparse.table().Find(there));
    const std::vector<float>& from = dense.weight(static_cast<int>(row));
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] = from[i % from.size()];
    }
  }
}

void Descend(ModelBench& bench) {
  for (std::size_t row = 0; row < bench.table().rows().size(); ++row) {
    std::vector<float>& weights = bench.weight(static_cast<int>(row));
    const std::vector<float>& gradient = bench.gradient(static_cast<int>(row));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] -= 0.1F * gradient[i];
    }
  }
}

TEST(Experts, OneExpertIsTheDenseModelBitForBit) {
  for (const Recompute recompute : kRecomputes) {
    for (const bool renormalize : {true, false}) {
      SCOPED_TRACE(Name(recompute));
      OnOneRank([&](RankContext& context) {
        RunConfig plain = Dense();
        RunConfig one = WithExperts({.count = 1, .chosen = 1, .renormalize = renormalize});
        plain.layout.recompute = one.layout.recompute = recompute;
        ModelBench dense(plain, context);
        ModelBench sparse(one, context);
        dense.set_overwrites();
        sparse.set_overwrites();
        CopyDense(dense, sparse);
        const HostBatch batch = RandomBatch(plain, 1);
        for (int step = 0; step < 4; ++step) {
          EXPECT_EQ(sparse.Gradients(batch), dense.Gradients(batch)) << "step " << step;
          Descend(dense);
          Descend(sparse);
        }
        EXPECT_EQ(sparse.weight(Row(sparse, 1, "experts.in.weight")), dense.weight(Row(dense, 1, "mlp.in.weight")));
        EXPECT_EQ(sparse.weight(Row(sparse, 0, "experts.out.weight")), dense.weight(Row(dense, 0, "mlp.out.weight")));
        EXPECT_THAT(sparse.gradient(Row(sparse, 0, "router.weight")), testing::Each(0));
      });
    }
  }
}

TEST(Experts, EqualExpertsAreTheDenseModel) {
  OnOneRank([&](RankContext& context) {
    ModelBench dense(Dense(), context);
    ModelBench sparse(WithExperts({.count = 5, .chosen = 3, .renormalize = true}), context);
    CopyDense(dense, sparse);
    const HostBatch batch = RandomBatch(Dense(), 2);
    const double loss = dense.Loss(batch);
    EXPECT_NEAR(sparse.Loss(batch), loss, 1e-6 * loss);
  });
}

TEST(Experts, PermutedExpertsAreTheSameModel) {
  OnOneRank([&](RankContext& context) {
    const ExpertsConfig experts{.count = 4, .chosen = 2, .ffn = 12, .shared_ffn = 8, .balance_loss = 0.1};
    ModelBench one(WithExperts(experts), context);
    ModelBench other(WithExperts(experts), context);
    constexpr std::size_t kOrder[] = {2, 0, 3, 1};
    const auto permute = [&](const std::vector<float>& from) {
      std::vector<float> to(from.size());
      const std::size_t part = from.size() / 4;
      for (std::size_t e = 0; e < 4; ++e) {
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(kOrder[e] * part), part,
                    to.begin() + static_cast<std::ptrdiff_t>(e * part));
      }
      return to;
    };
    for (std::int64_t layer = 0; layer < 2; ++layer) {
      for (const char* name : {"router.weight", "experts.in.weight", "experts.out.weight"}) {
        other.weight(Row(other, layer, name)) = permute(one.weight(Row(one, layer, name)));
      }
    }
    const HostBatch batch = RandomBatch(Dense(), 3);
    const double loss = one.Gradients(batch);
    EXPECT_NEAR(other.Gradients(batch), loss, 1e-6 * loss);
    for (const char* name : {"router.weight", "experts.in.weight", "experts.out.weight"}) {
      const std::vector<float> expected = permute(one.gradient(Row(one, 0, name)));
      const std::vector<float>& found = other.gradient(Row(other, 0, name));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(found[i], expected[i], 1e-5) << name;
      }
    }
  });
}

// Every expert is chosen, so that no difference steps over a choice.
TEST(Experts, GradientsAreThoseOfFiniteDifferences) {
  for (const auto& [score, renormalize] :
       {std::pair{RouterScore::kSoftmax, false}, {RouterScore::kSoftmax, true}, {RouterScore::kSigmoid, true}}) {
    for (const Recompute recompute : kRecomputes) {
      OnOneRank([&, score = score, renormalize = renormalize](RankContext& context) {
        RunConfig config = WithExperts({.count = 3,
                                        .chosen = 3,
                                        .ffn = 12,
                                        .shared_ffn = 8,
                                        .shared_gate = true,
                                        .score = score,
                                        .renormalize = renormalize,
                                        .scale = 1.5,
                                        .dense_layers = 1});
        config.layout.recompute = recompute;
        ModelBench bench(config, context);
        bench.set_overwrites();
        const HostBatch batch = RandomBatch(config, 4);
        bench.Gradients(batch);
        for (std::size_t row = 0; row < bench.table().rows().size(); ++row) {
          const auto number = static_cast<int>(row);
          ExpectDirections({.name = bench.table().rows()[row].name,
                            .values = bench.weight(number),
                            .gradient = bench.gradient(number),
                            .loss = [&] { return bench.Loss(batch); }});
        }
      });
    }
  }
}

// A router of zeros gives all scores alike: the first experts are chosen, the others have no rows.
TEST(Experts, ExpertWithoutTokensHasAGradientOfZeros) {
  for (const Recompute recompute : kRecomputes) {
    OnOneRank([&](RankContext& context) {
      RunConfig config = WithExperts({.count = 4, .chosen = 2, .ffn = 12, .balance_loss = 0.1});
      config.layout.recompute = recompute;
      ModelBench bench(config, context);
      bench.set_overwrites();
      std::vector<float>& router = bench.weight(Row(bench, 1, "router.weight"));
      std::fill(router.begin(), router.end(), 0.0F);
      bench.Gradients(RandomBatch(config, 5));
      for (const char* name : {"experts.in.weight", "experts.out.weight"}) {
        const std::vector<float>& gradient = bench.gradient(Row(bench, 1, name));
        const auto middle = gradient.begin() + static_cast<std::ptrdiff_t>(gradient.size() / 2);
        EXPECT_TRUE(std::all_of(middle, gradient.end(), [](float value) { return value == 0; })) << name;
        EXPECT_TRUE(std::any_of(gradient.begin(), middle, [](float value) { return value != 0; })) << name;
      }
    });
  }
}

// A second forward routes as the first, also where scores are equal.
TEST(Experts, RecomputedChoiceIsTheFirstOne) {
  std::vector<std::vector<float>> expected;
  for (const Recompute recompute : kRecomputes) {
    OnOneRank([&](RankContext& context) {
      RunConfig config = WithExperts({.count = 4, .chosen = 2, .ffn = 12, .balance_loss = 0.1, .z_loss = 0.01});
      config.layout.recompute = recompute;
      ModelBench bench(config, context);
      bench.set_overwrites();
      std::vector<float>& router = bench.weight(Row(bench, 0, "router.weight"));
      std::copy_n(router.begin(), router.size() / 2, router.begin() + static_cast<std::ptrdiff_t>(router.size() / 2));
      bench.Gradients(RandomBatch(config, 6));
      for (std::size_t row = 0; row < bench.table().rows().size(); ++row) {
        if (recompute == Recompute::kNone) {
          expected.push_back(bench.gradient(static_cast<int>(row)));
        } else {
          EXPECT_EQ(bench.gradient(static_cast<int>(row)), expected[row])
              << bench.table().rows()[row].name << " " << Name(recompute);
        }
      }
    });
  }
}

// A step that routes in backward is given the choice of forward.
TEST(Experts, ProgramsRouteOnce) {
  RunConfig config = WithExperts({.count = 4, .chosen = 2});
  config.layout.recompute = Recompute::kFull;
  const ModuleProgram program =
      PlanBlock(config.model, LocalSizes(config.model, config.layout, DType::kFloat32, false));
  int again = 0;
  for (const ProgramStep& step : program.backward) {
    if (const auto* route = std::get_if<Route<TensorId>>(&step.work)) {
      EXPECT_TRUE(route->kept.given());
      EXPECT_FALSE(route->chosen.given());
      EXPECT_EQ(program.buffers[static_cast<std::size_t>(route->kept.id)].area, Area::kKept);
      ++again;
    }
  }
  EXPECT_EQ(again, 1);
}

// What stands in padding touches neither the loss nor the balance of experts.
TEST(Experts, PaddingIsNotCountedByTheRouter) {
  OnOneRank([&](RankContext& context) {
    const RunConfig config =
        WithExperts({.count = 4, .chosen = 2, .ffn = 12, .shared_ffn = 8, .balance_loss = 0.5, .z_loss = 0.1});
    ModelBench bench(config, context);
    HostBatch batch = RandomBatch(config, 7);
    for (std::size_t i = 0; i < batch.weights.size(); ++i) {
      batch.weights[i] = i % 6 < 4 ? 1.0F : 0.0F;
    }
    const double loss = bench.Gradients(batch);
    std::vector<std::vector<float>> expected;
    for (std::size_t row = 0; row < bench.table().rows().size(); ++row) {
      expected.push_back(bench.gradient(static_cast<int>(row)));
    }
    for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
      batch.tokens[i] = i % 6 < 4 ? batch.tokens[i] : static_cast<std::int32_t>((batch.tokens[i] + 11) % 29);
    }
    EXPECT_NEAR(bench.Gradients(batch), loss, 1e-6);
    for (std::size_t row = 0; row < expected.size(); ++row) {
      // Rows of an expert are added in another order where padding lies between them.
      for (std::size_t i = 0; i < expected[row].size(); ++i) {
        ASSERT_NEAR(bench.gradient(static_cast<int>(row))[i], expected[row][i], 2e-6) << bench.table().rows()[row].name;
      }
    }
  });
}

}  // namespace
}  // namespace trireme
