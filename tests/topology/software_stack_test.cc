#include "topology/software_stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "topology/fixtures.h"

namespace trireme {
namespace {

using test::MessageOf;
using test::ShippedCluster;
using test::ShippedStack;
using test::Source;
using testing::HasSubstr;

TEST(SoftwareStack, EveryShippedFileLoadsUnderItsName) {
  std::set<std::string> names;
  for (const SoftwareStack& stack : LoadStacks(Source("stacks"))) {
    names.insert(stack.name);
    EXPECT_EQ(LoadStack(stack.name, Source("stacks")).name, stack.name);
  }
  for (const char* expected : {"trireme", "megatron-ds-2022", "megatron-lm-2021", "deepspeed-2021", "hf-fsdp-2023"}) {
    EXPECT_TRUE(names.count(expected)) << expected;
  }
}

TEST(SoftwareStack, OnlyThisProgramIsPricedByWhatItCounts) {
  for (const SoftwareStack& stack : LoadStacks(Source("stacks"))) {
    const StackPolicy expected = stack.name == "trireme" ? StackPolicy{.counted_costs = true,
                                                                       .strict_partition = true,
                                                                       .any_schedule = true,
                                                                       .staged_offload = true,
                                                                       .bf16_moments = true,
                                                                       .measured_rates = true,
                                                                       .inline_on_host = true}
                                                         : StackPolicy{};
    EXPECT_EQ(stack.policy, expected) << stack.name;
  }
}

TEST(SoftwareStack, ACalibrationHoldsAtItsSiteOnly) {
  const SoftwareStack stack = ShippedStack("megatron-ds-2022");
  const StackState here = Resolve(stack, ShippedCluster("jean-zay-a100"), "");
  const StackState elsewhere = Resolve(stack, ShippedCluster("dgx-a100"), "");
  EXPECT_TRUE(here.calibrated);
  EXPECT_FALSE(elsewhere.calibrated);
  EXPECT_EQ(elsewhere.efficiencies.matmul, stack.defaults.matmul);
  EXPECT_LT(here.spread, elsewhere.spread);
}

TEST(SoftwareStack, ARevisionHoldsBeforeItsDate) {
  const SoftwareStack stack = ShippedStack("megatron-ds-2022");
  const Cluster cluster = ShippedCluster("jean-zay-a100");
  EXPECT_TRUE(Resolve(stack, cluster, "2022-02-24").slowed);
  EXPECT_FALSE(Resolve(stack, cluster, "2022-02-25").slowed);
  EXPECT_FALSE(Resolve(stack, cluster, "").slowed) << "without a date a run is of today";
  EXPECT_EQ(Resolve(stack, cluster, "2022-02-17").memory.accumulation, 0);
  EXPECT_GT(Resolve(stack, cluster, "2022-03-01").memory.accumulation, 0);
}

TEST(SoftwareStack, ARevisionReplacesNumbersInItsTime) {
  const SoftwareStack stack = ParseStack(
      "name = \"s\"\n[time]\ncast_bytes = 4\n[efficiency]\nlayer_seconds = 0.002\n"
      "[[calibration]]\ncluster = \"dgx-h100\"\nlayer_seconds = 0.003\n"
      "[[revision]]\nuntil = \"2025-02\"\ntime = { cast_bytes = 5, collective_us = 7 }\n"
      "[[revision]]\nsince = \"2026\"\ntime = { cast_bytes = 3 }\n"
      "[[revision]]\nnote = \"eager\"\nefficiency = { layer_seconds = 0.004 }\n",
      "s.toml");
  const Cluster cluster = ShippedCluster("dgx-h100");
  EXPECT_EQ(Resolve(stack, cluster, "2025-01-31").time.cast_bytes, 5);
  EXPECT_DOUBLE_EQ(Resolve(stack, cluster, "2025-01").time.collective_seconds, 7e-6);
  EXPECT_EQ(Resolve(stack, cluster, "2025-02").time.cast_bytes, 4);
  EXPECT_EQ(Resolve(stack, cluster, "2026-01").time.cast_bytes, 3);
  EXPECT_EQ(Resolve(stack, cluster, "").time.cast_bytes, 3) << "today";
  EXPECT_DOUBLE_EQ(Resolve(stack, cluster, "").efficiencies.layer_seconds, 0.003);
  const StackState eager = Resolve(stack, cluster, StackUse{.date = "", .note = "8 GPUs, Eager mode"});
  EXPECT_DOUBLE_EQ(eager.efficiencies.layer_seconds, 0.006) << "twice the calibrated one";
  EXPECT_EQ(MessageOf([] {
              ParseStack("name = \"s\"\n[[revision]]\ntime = { cast_byte = 5 }\n", "s.toml");
            }).find("cast_byte") == std::string::npos,
            false);
}

TEST(SoftwareStack, ACalibrationReadsBack) {
  StackCalibration calibration{.cluster = "site", .spread = 0.07, .memory_spread = 0.05, .runs = 12};
  calibration.efficiencies.matmul = 0.625;
  calibration.memory.sharded = 12.5;
  const SoftwareStack stack = ParseStack("name = \"s\"\n" + ToToml(calibration), "s.toml");
  ASSERT_EQ(stack.calibrations.size(), 1U);
  EXPECT_DOUBLE_EQ(stack.calibrations[0].efficiencies.matmul, 0.625);
  EXPECT_DOUBLE_EQ(stack.calibrations[0].memory.sharded, 12.5);
  EXPECT_DOUBLE_EQ(stack.calibrations[0].spread, 0.07);
  EXPECT_EQ(stack.calibrations[0].runs, 12);
}

TEST(SoftwareStack, MistakesAreNamed) {
  EXPECT_THAT(MessageOf([] { ParseStack("name = \"s\"\n[attention]\nkernel = \"fast\"\n", "s.toml"); }),
              HasSubstr("must be flash, flash2, flash1 or unfused"));
  EXPECT_THAT(MessageOf([] { ParseStack("name = \"s\"\n[efficiency]\nmatmull = 1\n", "s.toml"); }),
              HasSubstr("did you mean 'efficiency.matmul'?"));
  EXPECT_THAT(MessageOf([] { ParseStack("name = \"s\"\n[features]\nzero = [7]\n", "s.toml"); }),
              HasSubstr("not 0 to 3"));
}

}  // namespace
}  // namespace trireme
