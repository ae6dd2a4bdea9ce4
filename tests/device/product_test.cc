// Engines of products at every instruction level of the machine, against sums in double.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "device/cpu/product/engine_choice.h"
#include "device/cpu/product/kernel_table.h"
#include "device/product_forms.h"
#include "message_of.h"

namespace trireme {
namespace {

constexpr DType kBf16 = DType::kBFloat16;
constexpr DType kFp16 = DType::kFloat16;

// Every engine at every level; those from outside once.
std::vector<NamedEngine> AllEngines(int threads) {
  std::vector<NamedEngine> all;
  const auto add = [&](ProductEngine kind, CpuLevel level) {
    if (auto engine = MakeSingleEngine(kind, level, threads)) {
      all.push_back({fmt::format("{} at {}, {} threads", NameOf(kind), NameOf(level), threads), std::move(engine)});
    }
  };
  for (const CpuLevel level : CpuLevels()) {
    add(ProductEngine::kPacked, level);
    add(ProductEngine::kWidened, level);
  }
  add(ProductEngine::kOnednn, CpuLevels().back());
  add(ProductEngine::kOpenblas, CpuLevels().back());
  add(ProductEngine::kBlis, CpuLevels().back());
  return all;
}

TEST(Product, EveryEngineAndFormGivesTheSumsOfDouble) {
  const std::vector<NamedEngine> engines = AllEngines(1);
  for (const auto& [m, n, k] : {std::tuple{1, 1, 1}, {3, 17, 33}, {17, 3, 2}, {33, 65, 31}, {50, 34, 70}}) {
    for (const Form& form : FormsOfSize(m, n, k)) {
      ExpectSums(engines, form);
    }
  }
}

TEST(Product, LargeOnesAreCutInDepthAndAmongThreads) {
  // Sums of double take most of the time: they are made once for any number of threads.
  std::vector<NamedEngine> engines;
  for (const int threads : {1, 2, 3}) {
    for (NamedEngine& named : AllEngines(threads)) {
      engines.push_back(std::move(named));
    }
  }
  for (const auto& [m, n, k] : {std::tuple{1, 700, 1030}, {200, 65, 515}, {300, 290, 260}, {65, 1, 4100}}) {
    for (const int transposes : {0, 1, 2, 3}) {
      for (const DType operands : {kFloat, kBf16}) {
        ExpectSums(engines, {.m = m,
                             .n = n,
                             .k = k,
                             .transpose_a = (transposes & 1) != 0,
                             .transpose_b = (transposes & 2) != 0,
                             .accumulate = transposes == 1,
                             .bias = transposes == 2,
                             .operands = operands});
      }
    }
  }
}

TEST(Product, OperandsLargerThanTheBuffersAreMultipliedInPieces) {
  // Whole numbers, whose sums fp32 holds in any order; no two neighbours in a row or a column are equal.
  const auto numbers = [](std::int64_t count, std::int64_t period) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      values[static_cast<std::size_t>(i)] = static_cast<float>(i % period + 1);
    }
    return values;
  };
  const auto product = [](const std::vector<float>& rows, const std::vector<float>& columns, float factor) {
    std::vector<float> values(rows.size() * columns.size());
    float* next = values.data();
    for (const float row : rows) {
      for (const float* column = columns.data(); column != columns.data() + columns.size(); ++column) {
        *next++ = factor * row * *column;
      }
    }
    return values;
  };
  const std::vector<NamedEngine> engines = AllEngines(3);
  const auto cpu = CpuForTest();
  // Pieces of columns, of rows, of depth, of rows and depth, of columns and depth; several blocks in a piece.
  for (const auto& [m, n, k] : {std::tuple{34, 4400, 2048},
                                {4400, 34, 2048},
                                {34, 34, 12000},
                                {8300, 34, 2110},
                                {34, 8300, 2110},
                                {300, 290, 2110}}) {
    Workbench bench(*cpu);
    const std::vector<float> rows = numbers(m, 7);
    const std::vector<float> columns = numbers(n, 11);
    const std::vector<float> left_depths = numbers(k, 3);
    const std::vector<float> right_depths = numbers(k, 13);
    const std::vector<float> expected = product(rows, columns, static_cast<float>(Dot(left_depths, right_depths)));
    MatmulArgs args{.a = bench.From(kBf16, {m, k}, product(rows, left_depths, 1)),
                    .b = bench.From(kBf16, {k, n}, product(right_depths, columns, 1))};
    for (const NamedEngine& named : engines) {
      if (named.engine->Multiplies(kBf16)) {
        args.c = bench.Output(kFloat, {m, n});
        named.engine->Run(args);
        EXPECT_EQ(RelativeDifference(bench.Read(args.c), expected), 0)
            << named.name << ": " << m << "x" << n << "x" << k;
      }
    }
  }
}

// At every level and in both types: the bits of one thread, twice, and of each of `counts` threads.
void ExpectEqualBits(int m, int n, int k, const std::vector<int>& counts) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  for (const CpuLevel level : CpuLevels()) {
    for (const DType operands : {kFloat, kBf16}) {
      const Form form{.m = m, .n = n, .k = k, .transpose_b = true, .bias = true, .operands = operands};
      const MatmulArgs args = MakeArgs(bench, form);
      const auto one = MakeSingleEngine(ProductEngine::kPacked, level, 1);
      const auto first = Outputs(bench, form, args, *one);
      EXPECT_EQ(Outputs(bench, form, args, *one), first) << NameOf(level) << ": " << form.ToString();
      for (const int threads : counts) {
        const auto engine = MakeSingleEngine(ProductEngine::kPacked, level, threads);
        EXPECT_EQ(Outputs(bench, form, args, *engine), first)
            << NameOf(level) << ", " << threads << " threads: " << form.ToString();
      }
    }
  }
}

TEST(Product, PackedOnesAreEqualInEveryBitForAnyNumberOfThreads) { ExpectEqualBits(250, 330, 600, {2, 3, 5}); }

TEST(Product, DeepOnesAndThoseOfManyThreadsAreEqualInEveryBit) {
  ExpectEqualBits(40, 900, 600, {2, 16});
  ExpectEqualBits(270, 300, 2500, {2, 5, 16});
}

TEST(Product, NanAndInfinityReachTheirRowAlone) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  for (const NamedEngine& named : AllEngines(1)) {
    for (const DType operands : {kFloat, kBf16}) {
      if (!named.engine->Multiplies(operands)) {
        continue;
      }
      for (const Epilogue epilogue : {Epilogue::kNone, Epilogue::kGelu}) {
        std::vector<float> values(40 * 40, 1);
        values[1] = std::nanf("");
        values[41] = kInfinity;
        const Form form{.m = 40, .n = 40, .k = 40, .epilogue = epilogue, .operands = operands, .out = operands};
        MatmulArgs args = MakeArgs(bench, form);
        args.a = bench.From(operands, {40, 40}, values);
        args.b = bench.Filled(operands, {40, 40}, 1);
        const std::vector<float> c = Outputs(bench, form, args, *named.engine)[0];
        EXPECT_TRUE(std::isnan(c[0])) << named.name;
        EXPECT_EQ(c[40], kInfinity) << named.name;
        EXPECT_EQ(c[80], 40) << named.name;
      }
    }
  }
}

TEST(Product, Bf16OperandsAreSummedInFloat) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  // 1 + 4095 * 2^-12: a sum kept in bf16 would stay 1.
  std::vector<float> values(4096, 1.0F / 4096);
  values[0] = 1;
  MatmulArgs args{.a = bench.From(kBf16, {1, 4096}, values), .b = bench.Filled(kBf16, {4096, 1}, 1)};
  for (const NamedEngine& named : AllEngines(1)) {
    if (named.engine->Multiplies(kBf16)) {
      args.c = bench.Output(kFloat, {1, 1});
      named.engine->Run(args);
      EXPECT_NEAR(bench.Read(args.c)[0], 1 + 4095.0 / 4096, 1e-5) << named.name;
    }
  }
}

TEST(Product, MemoryDoesNotGrowOnceAShapeHasBeenSeen) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Form form{.m = 100, .n = 90, .k = 600};
  const MatmulArgs args = MakeArgs(bench, form);
  const auto engine = MakeSingleEngine(ProductEngine::kPacked, CpuLevels().back(), 2);
  Outputs(bench, form, args, *engine);
  const std::int64_t bytes = engine->internal_bytes();
  EXPECT_GT(bytes, (100 + 90) * 600 * 4);
  Outputs(bench, form, args, *engine);
  EXPECT_EQ(engine->internal_bytes(), bytes);
}

// Products of one weight with left operands of several heights, in the order of a step.
std::vector<std::vector<float>> ProductsOfWeight(Workbench& bench, MatmulEngine& engine, MatmulArgs args, DType type) {
  std::vector<std::vector<float>> outputs;
  const std::int64_t k = args.b.shape[args.transpose_b ? 1 : 0];
  const std::int64_t n = args.b.shape[args.transpose_b ? 0 : 1];
  for (const std::int64_t m : {70, 1, 330, 70}) {
    args.a = bench.Normal(type, {m, k}, "a");
    args.c = bench.Output(kFloat, {m, n});
    engine.Run(args);
    outputs.push_back(bench.Read(args.c));
  }
  return outputs;
}

TEST(Product, KeptWeightsGiveTheBitsOfThosePackedEachTime) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  // In one piece, in pieces of depth, in pieces of columns.
  for (const auto& [n, k] : {std::pair{90, 600}, {40, 4300}, {4400, 2048}}) {
    for (const auto& [type, transposed] : {std::pair{kFloat, true}, {kBf16, true}, {kBf16, false}}) {
      const Tensor weight = bench.Normal(type, transposed ? Shape{n, k} : Shape{k, n}, "b");
      MatmulArgs args{.b = weight, .transpose_b = transposed};
      for (const CpuLevel level : {CpuLevels().front(), CpuLevels().back()}) {
        const auto engine = MakeSingleEngine(ProductEngine::kPacked, level, 3);
        args.weight_version = 0;
        const auto expected = ProductsOfWeight(bench, *engine, args, type);
        engine->set_spare_bytes(std::int64_t{1} << 30);
        args.weight_version = 1;
        const std::int64_t before = engine->internal_bytes();
        EXPECT_EQ(ProductsOfWeight(bench, *engine, args, type), expected) << NameOf(level) << ", " << n << "x" << k;
        EXPECT_GE(engine->internal_bytes() - before, weight.bytes());
      }
    }
  }
}

TEST(Product, AWeightIsPackedAgainForEachVersion) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const auto engine = MakeMatmulEngine(CpuLevels().back(), 2, FixedEngines());
  engine->set_spare_bytes(1 << 20);
  for (const DType type : {kFloat, kBf16, kFp16}) {
    MatmulArgs args{.a = bench.Filled(type, {2, 3}, 1), .b = bench.Filled(type, {3, 4}, 1), .weight_version = 7};
    const auto product = [&] {
      args.c = bench.Output(kFloat, {2, 4});
      engine->Run(args);
      return bench.Read(args.c).front();
    };
    EXPECT_EQ(product(), 3);
    cpu->ops().Fill(args.b, 0);
    EXPECT_EQ(product(), 3) << "the panels of version 7";
    args.weight_version = 8;
    EXPECT_EQ(product(), 0);
  }
}

// Another model's weights may come to lie at the same address, with versions that count from 1 again.
TEST(Product, NewRoomForWeightsDropsThoseOfBefore) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const auto engine = MakeMatmulEngine(CpuLevels().back(), 1, FixedEngines());
  MatmulArgs args{.a = bench.Filled(kBf16, {2, 3}, 1),
                  .b = bench.Filled(kBf16, {3, 4}, 1),
                  .c = bench.Output(kFloat, {2, 4}),
                  .weight_version = 1};
  engine->set_spare_bytes(1 << 20);
  engine->Run(args);
  const std::int64_t bytes = engine->internal_bytes();
  cpu->ops().Fill(args.b, 0);
  engine->set_spare_bytes(1 << 20);
  EXPECT_LT(engine->internal_bytes(), bytes);
  engine->Run(args);
  EXPECT_EQ(bench.Read(args.c).front(), 0);
}

TEST(Product, AWeightIsNotKeptWithoutVersionOrRoom) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  for (const auto& [spare, version] : {std::pair{1 << 20, 0}, {0, 1}, {64, 1}}) {
    const auto engine = MakeSingleEngine(ProductEngine::kPacked, CpuLevels().back(), 1);
    engine->set_spare_bytes(spare);
    MatmulArgs args{.a = bench.Filled(kBf16, {2, 3}, 1),
                    .b = bench.Filled(kBf16, {3, 4}, 1),
                    .c = bench.Output(kFloat, {2, 4}),
                    .weight_version = version};
    engine->Run(args);
    cpu->ops().Fill(args.b, 0);
    engine->Run(args);
    EXPECT_EQ(bench.Read(args.c).front(), 0) << spare << " bytes, version " << version;
  }
}

TEST(EngineTable, TextAndBack) {
  const EngineTable table{.fp32 = ProductEngine::kOpenblas, .bf16 = ProductEngine::kWidened};
  EXPECT_EQ(table.ToString(), "fp32=openblas bf16=widened");
  EXPECT_EQ(EngineTable::Parse(table.ToString()), table);
  EXPECT_EQ(EngineTable::Parse(""), FixedEngines());
  EXPECT_EQ(FixedEngines().ToString(), "fp32=packed bf16=packed");
  EXPECT_EQ(test::MessageOf([] { EngineTable::Parse("fp32=mkl"); }),
            "engine 'mkl' of products is unknown; known are packed, widened, onednn, openblas and blis");
  EXPECT_EQ(test::MessageOf([] { EngineTable::Parse("int8=packed"); }),
            "'int8=packed' is not an engine of products; write fp32=ENGINE or bf16=ENGINE");
}

TEST(EngineTable, WhatAnEngineCannotMultiplyGoesToPacked) {
  const CpuLevel level = CpuLevels().back();
  const EngineTable openblas{.fp32 = ProductEngine::kPacked, .bf16 = ProductEngine::kOpenblas};
  EXPECT_EQ(RunnableEngines(openblas, level), FixedEngines());
  const auto engine = MakeMatmulEngine(level, 1, openblas);
  EXPECT_TRUE(engine->Multiplies(kBf16));
  EXPECT_EQ(engine->name(), "packed");
  EXPECT_EQ(Substitutions(openblas, RunnableEngines(openblas, level)),
            "engine openblas cannot multiply bf16 here: packed multiplies it instead");
  EXPECT_EQ(Substitutions(FixedEngines(), FixedEngines()), "");
}

TEST(EngineTable, PackedStaysUnlessAnotherIsATenthFaster) {
  const auto speeds = [](double onednn) {
    return std::vector<EngineSpeed>{{ProductEngine::kPacked, kFloat, 100},
                                    {ProductEngine::kOnednn, kFloat, onednn},
                                    {ProductEngine::kOpenblas, kFloat, 112},
                                    {ProductEngine::kPacked, kBf16, 100},
                                    {ProductEngine::kOnednn, kBf16, 109}};
  };
  EXPECT_EQ(FastestEngines(speeds(120)).ToString(), "fp32=onednn bf16=packed");
  EXPECT_EQ(FastestEngines(speeds(111)).ToString(), "fp32=openblas bf16=packed");
}

TEST(EngineTable, AMeasurementCoversEveryTypeWithPackedFirst) {
  const std::vector<EngineSpeed> speeds = MeasureEngineSpeeds(CpuLevels().back(), 1);
  for (const DType type : {kFloat, kBf16}) {
    const auto first =
        std::find_if(speeds.begin(), speeds.end(), [&](const auto& row) { return row.operands == type; });
    ASSERT_NE(first, speeds.end());
    EXPECT_EQ(first->engine, ProductEngine::kPacked);
    EXPECT_GT(first->flops_per_second, 0);
  }
}

}  // namespace
}  // namespace trireme
