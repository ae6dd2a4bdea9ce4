#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>

#include "apps/program.h"
#include "base/json_text.h"

namespace trireme {
namespace {

using testing::HasSubstr;

TEST(MachineCommand, PrintsOneScreen) {
  const Outcome outcome = Workplace().Run({"machine", "--quick"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* const row : {"CPU ", "level ", "cores ", "memory ", "limits ", "GPUs ", "libraries ", "will use "}) {
    EXPECT_THAT(outcome.out, HasSubstr(row));
  }
  EXPECT_LE(Lines(outcome.out).size(), 40U);
}

TEST(MachineCommand, MeasuresUnlessToldNotTo) {
  const Workplace place;
  const nlohmann::json whole = ParseJson(place.Run({"machine", "--json"}).out);
  ASSERT_GE(whole["products"].size(), 2U);
  for (const auto& product : whole["products"]) {
    EXPECT_GT(product["gflops"].get<double>(), 0) << product;
  }
  EXPECT_GT(whole["copies"][0]["gigabytes_per_second"].get<double>(), 0);
  EXPECT_FALSE(ParseJson(place.Run({"machine", "--json", "--quick"}).out).contains("products"));
}

TEST(MachineCommand, ShowsAForcedLevelAndRefusesAnUnknownOne) {
  const Workplace place;
  setenv("TRIREME_CPU_LEVEL", "portable", 1);
  const Outcome forced = place.Run({"machine", "--json", "--quick"});
  EXPECT_EQ(ParseJson(forced.out)["cpu"]["level"], "portable");
  setenv("TRIREME_CPU_LEVEL", "avx9000", 1);
  const Outcome unknown = place.Run({"machine", "--quick"});
  unsetenv("TRIREME_CPU_LEVEL");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("avx9000"));
}

TEST(MachineCommand, RefusesAnUnknownOption) {
  const Outcome outcome = Workplace().Run({"machine", "--fast"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--fast"));
}

TEST(MachineCommand, ARunWritesItIntoItsFolder) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  ASSERT_EQ(place.Run({"train", "recipe.toml", "--run", "run", "--steps", "1"}).code, 0);
  const nlohmann::json machine = ParseJson(place.Read("run/machine.json"));
  EXPECT_TRUE(machine.contains("cpu"));
  EXPECT_TRUE(machine.contains("memory"));
}

}  // namespace
}  // namespace trireme
