// `trireme calibrate` as several processes, and what `plan` and `train` make of it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/program.h"
#include "base/json_text.h"

namespace trireme {
namespace {

using testing::HasSubstr;

Outcome LaunchTwo(const Workplace& place, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"-c", "exec " TRIREME_LAUNCHER " -n 2 \"$@\"", "sh", TRIREME_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return place.End(place.Start(words, "/bin/sh"), 0);
}

TEST(CalibrateOverMpi, PlanAndTrainFindWhatAllProcessesMeasured) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  // Laws of one rank with all cores stay, where the processes have fewer.
  const nlohmann::json alone = ParseJson(place.Run({"calibrate", "--quick", "--json", "--device", "cpu"}).out);
  const Outcome calibrated = LaunchTwo(place, {"calibrate", "--quick", "--json", "--device", "cpu"});
  ASSERT_EQ(calibrated.code, 0) << calibrated.err;
  const nlohmann::json said = ParseJson(calibrated.out);
  EXPECT_EQ(said["machine"], alone["machine"]) << "a launcher that binds processes to cores makes no other machine";
  EXPECT_EQ(said["file"], alone["file"]);
  EXPECT_EQ(said["devices_per_node"], alone["devices_per_node"]);
  EXPECT_GE(said["ranks"].size(), 2U);
  EXPECT_GE(said["ranks"].size() + 2, alone["ranks"].size());
  ASSERT_EQ(said["groups"].size(), 2U);  // of two processes, by type
  EXPECT_EQ(said["groups"][0]["ranks"], 2);
  EXPECT_GE(said["slowest"].get<double>(), 0);
  const double pace = said["pace_us"];
  EXPECT_GT(pace, 0) << "processes time the pace of their cores as one process does";
  EXPECT_THAT(calibrated.err, HasSubstr("calibrate   0 %  fp32 products"));
  EXPECT_THAT(calibrated.err, HasSubstr("collectives"));

  const Outcome planned = place.Run({"plan", "--layers", "2", "--hidden", "64", "--heads", "2", "--global-batch", "8",
                                     "--dtype", "fp32", "--gpus", "1"});
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.err, HasSubstr("planning for this machine, from the calibration of"));
  const std::vector<std::string> train = {"train", "recipe.toml",       "--run", "run",          "--steps", "1",
                                          "--set", "layout.pipeline=1", "--set", "layout.data=1"};
  const Outcome trained = LaunchTwo(place, train);
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(Unwrapped(trained.out), HasSubstr("from the calibration of"));

  // A file whose cores were a thousand times as fast: scaled to twice the time, the most that is believed.
  const std::string name = std::filesystem::path(said["file"].get<std::string>()).filename().string();
  std::string file = place.Read("config/trireme/" + name);
  const std::size_t at = file.find("pace_us = ");
  ASSERT_NE(at, std::string::npos) << file;
  file.replace(at, file.find('\n', at) - at, fmt::format("pace_us = {}", pace / 1000));
  place.Write("config/trireme/" + name, file);
  std::vector<std::string> again = train;
  again[3] = "slower";
  EXPECT_THAT(Unwrapped(LaunchTwo(place, again).out), HasSubstr("whose cores are 100 % slower now"));

  std::filesystem::remove(said["file"].get<std::string>());
  again[3] = "prior";
  EXPECT_THAT(Unwrapped(LaunchTwo(place, again).out),
              HasSubstr("from the cluster file 'laptop-cpu' with operations timed just now on "));
}

}  // namespace
}  // namespace trireme
