// Gradients of a whole tiny model of every family, embedding to loss, against finite differences of its loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "family_features.h"
#include "nn/model_bench.h"

namespace trireme {
namespace {

// Without norms before branches the residual stream enters them as small as it is: the norms of its products curve
// strongly.
double StepFor(const ModelConfig& model) { return model.pre_norm ? 0.02 : 0.004; }

// Every parameter of the model along four directions.
void ExpectGradientsOf(const RunConfig& config, const HostBatch& batch) {
  OnOneRank([&](RankContext& context) {
    ModelBench bench(config, context);
    bench.set_overwrites();
    const double loss = bench.Gradients(batch);
    EXPECT_NEAR(bench.Loss(batch), loss, 1e-6 * loss) << "with and without gradients";
    for (std::size_t row = 0; row < bench.table().rows().size(); ++row) {
      const auto number = static_cast<int>(row);
      ExpectDirections({.name = bench.table().rows()[row].name,
                        .values = bench.weight(number),
                        .gradient = bench.gradient(number),
                        .loss = [&] { return bench.Loss(batch); },
                        .step = StepFor(config.model)});
    }
  });
}

std::set<ParameterRole> RolesOf(const RunConfig& config) {
  std::set<ParameterRole> roles;
  const ParameterTable table(config.model);
  for (const Parameter& row : table.rows()) {
    roles.insert(row.role);
  }
  return roles;
}

TEST(WholeModel, FamiliesTogetherHaveEveryRole) {
  std::set<ParameterRole> roles;
  for (const std::string family : {"gpt2", "bloom", "llama"}) {
    roles.merge(RolesOf(OneRankRun(family)));
  }
  EXPECT_EQ(roles.size(), 6U);
}

class OfEveryFamily : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(WholeModel, OfEveryFamily, testing::ValuesIn(FamilyNames()),
                         [](const auto& one) { return one.param; });

TEST_P(OfEveryFamily, GradientsAreThoseOfFiniteDifferences) {
  const RunConfig config = OneRankRun(GetParam());
  ExpectGradientsOf(config, RandomBatch(config, 1));
}

TEST_P(OfEveryFamily, TiedOrNotGradientsAreThoseOfFiniteDifferences) {
  RunConfig config = OneRankRun(GetParam());
  config.model.tie_embeddings = !config.model.tie_embeddings;
  ExpectGradientsOf(config, RandomBatch(config, 2));
}

TEST_P(OfEveryFamily, DocumentsAndWeightsKeepGradientsTrue) {
  const RunConfig config = OneRankRun(GetParam());
  HostBatch batch = RandomBatch(config, 3);
  for (std::size_t i = 0; i < batch.weights.size(); ++i) {
    batch.weights[i] = static_cast<float>(i % 4) / 2;
    const std::size_t position = i % 6;
    batch.document_starts.push_back(position < 2 ? 0 : (position < 5 ? 2 : 5));
  }
  ExpectGradientsOf(config, batch);
}

TEST_P(OfEveryFamily, RecomputedGradientsAreThoseOfFiniteDifferences) {
  for (const Recompute recompute : {Recompute::kLight, Recompute::kSelective, Recompute::kFull}) {
    SCOPED_TRACE(static_cast<int>(recompute));
    RunConfig config = OneRankRun(GetParam());
    config.layout.recompute = recompute;
    ExpectGradientsOf(config, RandomBatch(config, 4));
  }
}

TEST_P(OfEveryFamily, LogitsInPiecesKeepGradientsTrue) {
  RunConfig config = OneRankRun(GetParam());
  config.train.head_chunk = 5;  // 18 tokens: the last piece is short
  ExpectGradientsOf(config, RandomBatch(config, 5));
}

}  // namespace
}  // namespace trireme
