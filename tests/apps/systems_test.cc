// Every recipe of recipes/systems trains: three steps with finite losses that the log prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "apps/program.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::set<std::string> Systems() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(TRIREME_SOURCE_DIR) / "recipes/systems")) {
    names.insert(entry.path().stem().string());
  }
  return names;
}

void ExpectThreeSteps(const std::string& system, const std::vector<std::string>& more = {}) {
  SCOPED_TRACE(system);
  const Workplace place;
  const std::string recipe = (fs::path(TRIREME_SOURCE_DIR) / "recipes/systems" / (system + ".toml")).string();
  std::vector<std::string> arguments = {"train", recipe, "--run", "run", "--steps", "3"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = place.Run(arguments);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string metrics = place.Read("run/metrics.jsonl");
  EXPECT_THAT(metrics, HasSubstr("\"step\":3"));
  EXPECT_EQ(metrics.find("\"skipped\":true"), std::string::npos) << metrics;
}

TEST(Systems, EachTrains) {
  const std::set<std::string> systems = Systems();
  EXPECT_GE(systems.size(), 12U);
  for (const std::string& system : systems) {
    ExpectThreeSteps(system);
  }
}

TEST(Systems, ZeroWithEachWayOfOffloadingTrains) {
  for (const char* offload : {"optimizer", "full"}) {
    ExpectThreeSteps("megatron-deepspeed-zero", {"--set", std::string("layout.offload=") + offload});
  }
}

}  // namespace
}  // namespace trireme
