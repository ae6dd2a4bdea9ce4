#include "topology/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace trireme {
namespace {

TEST(ParallelLayout, RanksIsTheProductOfItsAxes) {
  const ParallelLayout layout{.tensor = 2, .context = 3, .pipeline = 5, .data = 7};
  EXPECT_EQ(layout.ranks(), 210);
}

TEST(ParallelLayout, NamesWhatDiffersFromTheDefaults) {
  ParallelLayout layout{.tensor = 2, .pipeline = 2, .data = 2, .zero = 1, .micro_batch = 4};
  EXPECT_EQ(layout.ToString(), "tp2 pp2 dp2 zero1 1f1b mbs4");
  layout.sequence_parallel = true;
  layout.recompute = Recompute::kSelective;
  layout.recompute_layers = 3;
  layout.chunks = 2;
  layout.partition = "1,2,3,4";
  EXPECT_EQ(layout.ToString(), "tp2 pp2 dp2 zero1 1f1b mbs4 chunks2 partition=1,2,3,4 sp recompute=selective:3");
}

TEST(Recompute, NamesAreReadBack) {
  for (const Recompute one : {Recompute::kNone, Recompute::kLight, Recompute::kSelective, Recompute::kFull}) {
    EXPECT_EQ(FromWord<Recompute>("recompute", Name(one)), one);
  }
  for (const Offload one : {Offload::kNone, Offload::kOptimizer, Offload::kFull}) {
    EXPECT_EQ(FromWord<Offload>("offload", Name(one)), one);
  }
}

TEST(Recompute, AnUnknownNameOffersTheNearest) {
  try {
    FromWord<Recompute>("recompute", "selectiv");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean 'selective'?"));
  }
}

TEST(NearestDivisors, AreTheOnesBelowAndAbove) {
  EXPECT_EQ(NearestDivisors(24, 5), "4 or 6");
  EXPECT_EQ(NearestDivisors(24, 6), "6");
  EXPECT_EQ(NearestDivisors(78, 12), "6 or 13");
  EXPECT_EQ(NearestDivisors(7, 3), "1 or 7");
  EXPECT_EQ(NearestDivisors(12, 100), "12");
  EXPECT_EQ(NearestDivisors(1, 4), "1");
}

}  // namespace
}  // namespace trireme
