#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "device/workbench.h"

namespace trireme {
namespace {

using testing::HasSubstr;

// The message of the Error that `call` throws; "" when it throws none.
template <typename Call>
std::string ErrorOf(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class OperandChecks : public testing::Test {
 protected:
  std::unique_ptr<Device> cpu_ = CpuForTest();
  Workbench bench_{*cpu_};
  Ops& ops_ = cpu_->ops();
};

TEST_F(OperandChecks, MatmulNamesBothShapes) {
  const Tensor a = bench_.Filled(kFloat, {2, 3}, 1);
  const Tensor b = bench_.Filled(kFloat, {4, 5}, 1);
  const Tensor c = bench_.Filled(kFloat, {2, 5}, 1);
  const std::string message = ErrorOf([&] { ops_.Matmul({.a = a, .b = b, .c = c}); });
  EXPECT_THAT(message, HasSubstr("[2, 3]"));
  EXPECT_THAT(message, HasSubstr("[4, 5]"));
  const Tensor square = bench_.Filled(kFloat, {3, 5}, 1);
  EXPECT_THAT(ErrorOf([&] { ops_.Matmul({.a = a, .b = square, .c = square}); }),
              HasSubstr("c has shape [3, 5], expected [2, 5]"));
  EXPECT_THAT(ErrorOf([&] { ops_.Matmul({.a = a, .b = square, .c = c, .accumulate = true, .bias = a.Range(0, 5)}); }),
              HasSubstr("accumulate excludes"));
  EXPECT_THAT(ErrorOf([&] { ops_.Matmul({.a = a, .b = square, .c = c, .epilogue = Epilogue::kGelu}); }),
              HasSubstr("auxiliary is missing"));
  EXPECT_THAT(ErrorOf([&] {
                ops_.Matmul({.a = bench_.Filled(DType::kBFloat16, {2, 3}, 1), .b = square, .c = c});
              }),
              HasSubstr("b [3, 5] is fp32, expected bf16"));
}

TEST_F(OperandChecks, NormNeedsOutputsOfItsShape) {
  const Tensor x = bench_.Filled(kFloat, {2, 4}, 1);
  EXPECT_THAT(ErrorOf([&] { ops_.ResidualNormForward({.x = x}); }), HasSubstr("neither a branch nor gamma"));
  EXPECT_THAT(ErrorOf([&] { ops_.ResidualNormForward({.x = x, .branch = x}); }), HasSubstr("sum is missing"));
  EXPECT_THAT(ErrorOf([&] { ops_.ResidualNormForward({.x = x, .gamma = x}); }),
              HasSubstr("gamma has shape [2, 4], expected 4 elements"));
  EXPECT_THAT(
      ErrorOf([&] { ops_.ResidualNormForward({.x = x, .branch = x, .dropout = {.probability = 1}, .sum = x}); }),
      HasSubstr("dropout probability 1"));
}

TEST_F(OperandChecks, AttentionNeedsWholeGroupsAndPackedRows) {
  AttentionArgs args{.batch = 1, .sequence = 2, .heads = 3, .kv_heads = 2, .head_size = 4};
  EXPECT_THAT(ErrorOf([&] { ops_.AttentionForward(args); }), HasSubstr("3 query heads do not divide over 2"));
  args.kv_heads = 3;
  args.qkv = bench_.Filled(kFloat, {2, 35}, 1);
  EXPECT_THAT(ErrorOf([&] { ops_.AttentionForward(args); }), HasSubstr("qkv has shape [2, 35], expected [2, 36]"));
  EXPECT_EQ(ops_.flops().attention, 0);
}

TEST_F(OperandChecks, RotaryRefusesOddHeads) {
  EXPECT_THAT(ErrorOf([&] {
                ops_.Run(Rotary<Tensor>{
                    .qkv = bench_.Filled(kFloat, {1, 9}, 1), .sequence = 1, .heads = 1, .kv_heads = 1, .head_size = 3});
              }),
              HasSubstr("head size 3 is odd"));
}

TEST_F(OperandChecks, CrossEntropyNeedsWholeParts) {
  const Tensor logits = bench_.Filled(kFloat, {2, 3}, 1);
  const Tensor vector = bench_.Filled(kFloat, {2}, 1);
  CrossEntropyArgs args{.logits = logits,
                        .valid_columns = 4,
                        .targets = bench_.Integers({2}, "targets", 0, 3),
                        .statistics = bench_.Filled(kFloat, {7}, 1),
                        .weights = vector,
                        .losses = vector};
  EXPECT_THAT(ErrorOf([&] { ops_.CrossEntropyStatistics(args, args.statistics); }),
              HasSubstr("4 valid columns of logits with 3"));
  args.valid_columns = 3;
  EXPECT_THAT(ErrorOf([&] { ops_.CrossEntropyGradient(args); }), HasSubstr("7 statistics"));
}

TEST_F(OperandChecks, ElementwiseTypesAndCounts) {
  const Tensor floats = bench_.Filled(kFloat, {4}, 1);
  const Tensor halves = bench_.Filled(DType::kBFloat16, {4}, 1);
  EXPECT_THAT(ErrorOf([&] { ops_.Fill(halves, 2); }), HasSubstr("bf16"));
  EXPECT_THAT(ErrorOf([&] { ops_.DrawNormal(floats, {}); }), HasSubstr("DrawNormal: to"));
  EXPECT_THAT(ErrorOf([&] { ops_.Copy(floats, floats.Range(0, 3)); }), HasSubstr("expected 4 elements"));
  EXPECT_THAT(ErrorOf([&] { ops_.Add(halves, floats); }), HasSubstr("is fp32, expected bf16"));
  EXPECT_THAT(ErrorOf([&] { ops_.Reduce(floats, {}); }), HasSubstr("no sources"));
  EXPECT_THAT(ErrorOf([&] { ops_.Update({}, {.step = 0}); }), HasSubstr("step 0"));
}

TEST_F(OperandChecks, LowerHalvesBelongToBFloat16) {
  const Tensor floats = bench_.Filled(kFloat, {4}, 1);
  const Tensor high = bench_.Filled(DType::kBFloat16, {4}, 1);
  const Tensor low = bench_.Filled(DType::kUInt16, {4}, 1);
  UpdateRange range{.weight = high, .first_moment = floats, .second_moment = floats, .gradient = floats};
  EXPECT_THAT(ErrorOf([&] { ops_.Update({&range, 1}, {}); }), HasSubstr("low is missing"));
  range.low = low.Range(0, 3);
  EXPECT_THAT(ErrorOf([&] { ops_.Update({&range, 1}, {}); }), HasSubstr("expected 4 elements"));
  range = {.weight = floats, .low = low, .first_moment = floats, .second_moment = floats, .gradient = floats};
  EXPECT_THAT(ErrorOf([&] { ops_.Update({&range, 1}, {}); }), HasSubstr("4 fp32 weights are whole"));
  EXPECT_THAT(ErrorOf([&] { ops_.Split(floats, low, floats); }), HasSubstr("high [4] is fp32, expected bf16"));
  EXPECT_THAT(ErrorOf([&] { ops_.Join(floats, high, high); }), HasSubstr("low [4] is bf16, expected uint16"));
  EXPECT_THAT(ErrorOf([&] { ops_.Join(high, high, low); }), HasSubstr("whole [4] is bf16, expected fp32"));
}

TEST_F(OperandChecks, MomentsAreOfOneType) {
  const Tensor floats = bench_.Filled(kFloat, {4}, 1);
  const Tensor halves = bench_.Filled(DType::kBFloat16, {4}, 1);
  const Tensor integers = bench_.Filled(DType::kInt32, {4}, 1);
  UpdateRange range{.weight = floats, .first_moment = halves, .second_moment = floats, .gradient = floats};
  EXPECT_THAT(ErrorOf([&] { ops_.Update({&range, 1}, {}); }), HasSubstr("second_moment [4] is fp32, expected bf16"));
  range.first_moment = integers;
  EXPECT_THAT(ErrorOf([&] { ops_.Update({&range, 1}, {}); }), HasSubstr("first_moment [4] is int32"));
  range.first_moment = floats.Range(0, 3);
  EXPECT_THAT(ErrorOf([&] { ops_.Update({&range, 1}, {}); }), HasSubstr("expected 4 elements"));
}

TEST_F(OperandChecks, EmptyTensorsAreLeftAlone) {
  const Tensor empty = bench_.Output(kFloat, {0, 4});
  const Tensor gamma = bench_.Filled(kFloat, {4}, 1);
  const Tensor statistics = bench_.Output(kFloat, {2, 0});
  ops_.Fill(empty, 1);
  ops_.Copy(empty, empty);
  ops_.Scale(empty, 2);
  ops_.BiasGradient(empty, gamma);
  ops_.ResidualNormForward({.x = empty, .gamma = gamma, .normed = empty, .statistics = statistics});
  ops_.NormBackward({.grad_normed = empty,
                     .x = empty,
                     .statistics = statistics,
                     .gamma = gamma,
                     .grad_x = empty,
                     .grad_gamma = gamma});
  ops_.Run(ActivationForward<Tensor>{.kind = ActivationKind::kGelu, .from = empty, .to = empty});
  ops_.Matmul({.a = empty, .b = bench_.Filled(kFloat, {4, 4}, 1), .c = empty});
  EXPECT_EQ(bench_.Read(gamma), std::vector<float>(4, 1));
}

TEST(Flops, CountMatmulAttentionAndRecomputationApart) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  Ops& ops = cpu->ops();
  const auto matmul = [&] {
    ops.Matmul({.a = bench.Filled(kFloat, {3, 5}, 1),
                .b = bench.Filled(kFloat, {7, 5}, 1),
                .c = bench.Output(kFloat, {3, 7}),
                .transpose_b = true});
  };
  matmul();
  EXPECT_EQ(ops.flops(), (FlopCount{.matmul = 2 * 3 * 5 * 7}));
  const AttentionArgs attention{.batch = 2,
                                .sequence = 5,
                                .heads = 4,
                                .kv_heads = 2,
                                .head_size = 6,
                                .qkv = bench.Filled(kFloat, {10, 48}, 1),
                                .out = bench.Output(kFloat, {10, 24}),
                                .statistics = bench.Output(kFloat, {2, 4, 5}),
                                .grad_out = bench.Filled(kFloat, {10, 24}, 1),
                                .grad_qkv = bench.Output(kFloat, {10, 48})};
  ops.AttentionForward(attention);
  EXPECT_EQ(ops.flops().attention, 2 * 4 * 15 * 4 * 6);
  ops.AttentionBackward(attention);
  EXPECT_EQ(ops.flops().attention, 2 * 4 * 15 * (4 + 10) * 6);
  ops.set_recomputing(true);
  matmul();
  ops.AttentionForward(attention);
  ops.set_recomputing(false);
  EXPECT_EQ(ops.flops(), (FlopCount{.matmul = 210, .attention = 10080, .recomputed = 210 + 2880}));
}

}  // namespace
}  // namespace trireme
