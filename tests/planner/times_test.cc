#include <gtest/gtest.h>

#include "lowering/linear_shape.h"
#include "planner/fixtures.h"
#include "planner/pricing/collective_time.h"
#include "planner/pricing/matmul_time.h"
#include "planner/pricing/module_time.h"

namespace trireme {
namespace {

using test::Bloom176b;
using test::Machine;
using test::ShippedCluster;

TEST(MatmulTime, AWaveThatFillsAllUnitsLosesNothing) {
  // 13824 over 8 ranks: 8 x 54 tiles of 256 x 128 are four full waves of 108 units; 14336 leaves a part empty.
  EXPECT_DOUBLE_EQ(WaveEfficiency(2048, 6912, 108), 1);
  EXPECT_LT(WaveEfficiency(2048, 7168, 108), 0.9);
  EXPECT_GT(WaveEfficiency(16384, 7168, 108), 0.97);
}

TEST(MatmulTime, LargeProductsRunAtTheCalibratedShareOfPeak) {
  const Cluster cluster = ShippedCluster("dgx-a100");
  const MatmulPrice price{.device = cluster.device, .dtype = DType::kBFloat16, .efficiency = 0.8};
  const double flops = 2.0 * 27648 * 13824 * 13824;
  EXPECT_NEAR(flops / price.Seconds({27648, 13824, 13824}) / 312e12, 0.8, 0.01);
}

TEST(MatmulTime, UnalignedAndThinProductsAreSlower) {
  const Cluster cluster = ShippedCluster("dgx-a100");
  const MatmulPrice price{.device = cluster.device, .dtype = DType::kBFloat16};
  EXPECT_GT(price.Seconds({4096, 4097, 4096}), 2 * price.Seconds({4096, 4096, 4096}));
  // One row reads the whole matrix: memory decides.
  EXPECT_GE(price.Seconds({1, 8192, 8192}), 2.0 * 8192 * 8192 / 2039e9);
}

TEST(CollectiveTime, GroupsAreLaidTensorInnermost) {
  const Cluster cluster = ShippedCluster("jean-zay-a100");
  const GroupPlacement tensor = PlaceTensor(cluster, {.tensor = 4, .pipeline = 12, .data = 8});
  EXPECT_EQ(tensor.per_node, 4);
  EXPECT_FALSE(tensor.crosses_nodes());
  const GroupPlacement data = PlaceData(cluster, {.tensor = 4, .pipeline = 12, .data = 8});
  EXPECT_EQ(data.per_node, 2);
  EXPECT_EQ(data.sharing, 4);
  EXPECT_TRUE(PlaceTensor(ShippedCluster("perlmutter"), {.tensor = 8}).crosses_nodes());
}

TEST(CollectiveTime, ASmallerTensorDegreeSharesTheCardsWithFewerRings) {
  const Cluster cluster = ShippedCluster("jean-zay-a100");
  const LinkShares shares;
  const double eight = CollectiveSeconds(CollectiveKind::kAllReduce, 1e9, 1,
                                         PlaceData(cluster, {.tensor = 8, .data = 8}), cluster, shares);
  const double four = CollectiveSeconds(CollectiveKind::kAllReduce, 1e9, 1,
                                        PlaceData(cluster, {.tensor = 4, .data = 8}), cluster, shares);
  EXPECT_NEAR(eight / four, 2, 0.01);
}

TEST(CollectiveTime, AnAllReduceIsAReduceScatterAndAGather) {
  const Cluster cluster = ShippedCluster("dgx-h100");
  const GroupPlacement group{.size = 8, .per_node = 8};
  const auto seconds = [&](CollectiveKind kind) { return CollectiveSeconds(kind, 1e9, 1, group, cluster, {}); };
  EXPECT_NEAR(seconds(CollectiveKind::kAllReduce),
              seconds(CollectiveKind::kReduceScatter) + seconds(CollectiveKind::kAllGather), 1e-5)
      << "less the start of one of them";
  EXPECT_EQ(CollectiveSeconds(CollectiveKind::kAllReduce, 1e9, 1, {.size = 1}, cluster, {}), 0);
}

TEST(ModuleTime, ProductsThatStayInBf16ArePricedAsSuch) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = Completed(ModelConfig{.family = "llama",
                                                  .layers = 2,
                                                  .hidden = 2048,
                                                  .heads = 16,
                                                  .kv_heads = 4,
                                                  .ffn = 5632,
                                                  .vocabulary = 32000,
                                                  .sequence = 4096});
  PlanPoint point = machine.Point(model, {.micro_batch = 4}, 4);
  const LocalSizes sizes(model, point.config.layout, point.dtype(), false);
  const ModuleTime native = TimeOfBlock(point, sizes);
  point.config.train.dtype = "fp8";
  const ModuleTime all = TimeOfBlock(point, sizes);
  const auto with = [&](LinearSet linears) {
    point.config.train.fp8_products = Float8ProductsText(linears);
    return TimeOfBlock(point, sizes);
  };
  EXPECT_DOUBLE_EQ(with(0).total(), native.total());
  EXPECT_DOUBLE_EQ(with(kAllLinears).total(), all.total());
  ModuleTime sum;
  for (int i = 0; i < kBlockLinears; ++i) {
    const auto linear = static_cast<BlockLinear>(i);
    const ModuleTime one = with(SetOf(linear));
    const LinearShape shape = ShapeOf(linear, sizes);
    const double slow = ProductPrice(point, ProductFormat::kNative).Seconds({shape.rows, shape.outputs, shape.inputs});
    const double fast = ProductPrice(point, ProductFormat::kFloat8).Seconds({shape.rows, shape.outputs, shape.inputs});
    EXPECT_NEAR(native.forward.matmul - one.forward.matmul, slow - fast, 1e-9 * native.forward.matmul) << i;
    EXPECT_GT(one.forward.memory, native.forward.memory) << "its input is cast";
    EXPECT_LT(one.backward_weight.matmul, native.backward_weight.matmul);
    sum += one;
  }
  EXPECT_NEAR(sum.total() - 3 * native.total(), all.total(), 1e-9 * all.total());
  EXPECT_DOUBLE_EQ(point.Under(machine.state).linears(), SetOf(BlockLinear::kFfnOut));
}

TEST(ModuleTime, FullRecomputationAddsAForward) {
  const Machine machine("jean-zay-a100", "megatron-ds-2022");
  const ModelConfig model = Bloom176b();
  ParallelLayout layout{.tensor = 4, .pipeline = 12, .data = 8, .micro_batch = 2};
  const auto block = [&](Recompute recompute) {
    layout.recompute = recompute;
    const PlanPoint point = machine.Point(model, layout, 2048);
    return TimeOfBlock(point, LocalSizes(model, layout, point.dtype(), false));
  };
  const ModuleTime full = block(Recompute::kFull);
  const ModuleTime none = block(Recompute::kNone);
  EXPECT_NEAR(full.total() - none.total(), none.forward.total(), 1e-6 * none.total());
  EXPECT_EQ(full.backward_weight.total(), 0) << "both parts run together";
}

TEST(ModuleTime, HeadSizesOffTheRuleAreSlowUnderUnfusedAttention) {
  const Machine machine("jean-zay-a100", "megatron-ds-2022");
  const auto attention = [&](std::int64_t heads) {
    const ModelConfig model = Completed(ModelConfig{
        .family = "gpt2", .layers = 78, .hidden = 13824, .heads = heads, .vocabulary = 250880, .sequence = 2048});
    const ParallelLayout layout{.tensor = 4, .micro_batch = 2};
    const PlanPoint point = machine.Point(model, layout, 2);
    return TimeOfBlock(point, LocalSizes(model, layout, point.dtype(), false)).forward.attention;
  };
  EXPECT_GT(attention(128), 3 * attention(96)) << "heads of 108 against heads of 144";
}

}  // namespace
}  // namespace trireme
