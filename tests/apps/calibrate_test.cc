// `trireme calibrate` as a user runs it, and what `plan` and `train` make of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/program.h"
#include "base/json_text.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(CalibrateCommand, PlanAndTrainFindTheFileUntilItIsDeleted) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  // One rank, which fits whatever the number of cores.
  const std::vector<std::string> plan = {"plan",           "--layers", "2",       "--hidden", "64",     "--heads", "2",
                                         "--global-batch", "8",        "--dtype", "fp32",     "--gpus", "1"};
  const Outcome before = place.Run(plan);
  EXPECT_EQ(before.code, 2);
  EXPECT_THAT(before.err, HasSubstr("trireme calibrate"));

  const Outcome calibrated = place.Run({"calibrate", "--quick", "--json", "--device", "cpu"});
  ASSERT_EQ(calibrated.code, 0) << calibrated.err;
  const nlohmann::json said = ParseJson(calibrated.out);
  const std::string file = said["file"];
  EXPECT_TRUE(file.starts_with(place / "config/trireme/")) << file;
  EXPECT_GE(said["ranks"].size(), 2U);
  EXPECT_FALSE(place.Has(".trireme-calibrate")) << "the disk's file is removed";

  const Outcome planned = place.Run(plan);
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.err, HasSubstr("planning for this machine, from the calibration of"));
  const Outcome trained = place.Run({"train", "recipe.toml", "--run", "run", "--steps", "1"});
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(Unwrapped(trained.out), HasSubstr("from the calibration of"));

  // A damaged file costs the prediction and not the run.
  place.Write(std::filesystem::relative(file, place / "").string(), "name =");
  const Outcome damaged = place.Run({"train", "recipe.toml", "--run", "damaged", "--steps", "2"});
  EXPECT_EQ(damaged.code, 0) << damaged.err;
  EXPECT_THAT(damaged.err, HasSubstr("the run is not predicted"));
  EXPECT_THAT(place.Read("damaged/metrics.jsonl"), HasSubstr("\"predicted_seconds\":null"));
  EXPECT_THAT(damaged.out, Not(HasSubstr(" | predicted ")));

  std::filesystem::remove(file);
  EXPECT_EQ(place.Run(plan).err, before.err);
  EXPECT_THAT(Unwrapped(place.Run({"train", "recipe.toml", "--run", "prior", "--steps", "1"}).out),
              HasSubstr("from the cluster file 'laptop-cpu' with operations timed just now on "));
}

TEST(CalibrateCommand, WritesAnotherFileWhenTold) {
  const Workplace place;
  const Outcome outcome = place.Run({"calibrate", "--quick", "--device", "cpu", "--output", "here/this.toml"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("wrote here/this.toml"));
  EXPECT_THAT(place.Read("here/this.toml"), HasSubstr("[[measured.rank]]"));
  EXPECT_EQ(place
                .Run({"plan", "--cluster", "here/this.toml", "--layers", "2", "--hidden", "64", "--heads", "2",
                      "--global-batch", "8", "--dtype", "fp32", "--gpus", "1"})
                .code,
            0);
}

TEST(CalibrateCommand, MistakesAreNamed) {
  const Workplace place;
  EXPECT_THAT(place.Run({"calibrate", "--device", "tpu"}).err, HasSubstr("tpu"));
  const Outcome disk = place.Run({"calibrate", "--device", "cpu", "--disk", "nowhere"});
  EXPECT_EQ(disk.code, 2);
  EXPECT_THAT(disk.err, HasSubstr("--disk 'nowhere' is no folder"));
}

TEST(TrainCommand, SaysItsPredictionBeforeTheFirstStepAndAtTheEnd) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  const Outcome outcome = place.Run({"train", "recipe.toml", "--run", "run", "--steps", "5"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::size_t expected = outcome.out.find("\nexpects ");
  ASSERT_NE(expected, std::string::npos) << outcome.out;
  EXPECT_LT(expected, outcome.out.find("\nstep 1/5 "));
  EXPECT_THAT(outcome.out, HasSubstr("(median of 3): "));
  EXPECT_THAT(outcome.out, HasSubstr("by cause, predicted/measured on rank 0: "));
  const nlohmann::json line = ParseJson(Lines(place.Read("run/metrics.jsonl"))[0]);
  EXPECT_GT(line["predicted_seconds"].get<double>(), 0);
  EXPECT_EQ(ParseJson(place.Read("run/prediction.json"))["seconds"], line["predicted_seconds"]);
  const Outcome resumed = place.Run({"train", "recipe.toml", "--run", "run", "--steps", "8"});
  EXPECT_THAT(resumed.out, HasSubstr("earlier steps of this run"));
}

}  // namespace
}  // namespace trireme
