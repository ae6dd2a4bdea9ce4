#include "operate/drill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"

namespace trireme {
namespace {

TEST(Drill, ReadsItsParts) {
  const Drill drill = ParseDrill("rank=2,step=7,phase=backward,what=spin,times=3");
  EXPECT_EQ(drill.rank, 2);
  EXPECT_EQ(drill.step, 7);
  EXPECT_EQ(drill.phase, "backward");
  EXPECT_EQ(drill.what, "spin");
  EXPECT_EQ(drill.times, 3);
  EXPECT_TRUE(ParseDrill("").what.empty());
}

TEST(Drill, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"rank=1", "what=dance", "rank=x,what=stop", "when=now,what=stop", "what",
                           "save=later,what=kill", "rank=-1,what=stop"}) {
    EXPECT_THROW(ParseDrill(text), Error) << text;
  }
}

TEST(Drill, SaysWhyItCannotAct) {
  RunConfig config;
  config.layout.pipeline = 2;
  config.layout.data = 2;
  config.train.steps = 10;
  config.checkpoint.every = 4;
  const auto why = [&](const std::string& text) { return WhyIdle(ParseDrill(text), config, "no-such-folder"); };
  EXPECT_EQ(WhyIdle(Drill(), config, "no-such-folder"), "");
  EXPECT_EQ(why("rank=2,step=3,what=loss"), "");
  EXPECT_THAT(why("rank=0,step=3,what=loss"),
              testing::HasSubstr("computes no loss, which is on stage 1: ranks 2 to 3"));
  EXPECT_THAT(why("rank=0,step=11,what=nan"), testing::HasSubstr("after the run's last one, 10"));
  EXPECT_EQ(why("rank=0,step=8,save=mid-manifest,what=kill"), "");
  EXPECT_THAT(why("rank=0,step=7,save=mid-manifest,what=kill"), testing::HasSubstr("checkpoint.every = 4"));
  config.layout.schedule = "zero_bubble_v";
  config.layout.chunks = 2;
  EXPECT_EQ(why("rank=0,step=3,what=loss"), "") << "the V ends on the first stage";
  EXPECT_THAT(why("rank=2,step=3,what=loss"), testing::HasSubstr("stage 0"));
}

TEST(Drill, HappensAsOftenAsItSaysInTheLifeOfARunAndOnlyThere) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("trireme-drill-{}", getpid())).string();
  std::filesystem::create_directories(folder);
  const auto device = MakeCpuDevice({});
  float gradient = 1;
  int damaged = 0;
  const auto live = [&] {
    ++damaged;
    return LiveTensors{.gradient = {&gradient, DType::kFloat32, {1}}};
  };
  const auto play = [&](int rank) {
    DrillMaster master(ParseDrill("rank=1,step=3,what=nan,times=2"), rank, folder, {.device = *device, .live = live});
    EXPECT_EQ(HasActed(ParseDrill("rank=1,step=3,what=nan"), folder), damaged > 0);
    for (std::int64_t step = 1; step < 6; ++step) {
      master.AtPhase(step, "forward");
      master.AtPhase(step, "reduce");
    }
  };
  play(0);
  EXPECT_EQ(damaged, 0);
  for (int restart = 0; restart < 4; ++restart) {
    play(1);
  }
  EXPECT_EQ(damaged, 2);
  EXPECT_NE(WhyIdle(ParseDrill("rank=1,step=3,what=nan,times=2"), RunConfig(), folder).find("already"),
            std::string::npos);
  EXPECT_TRUE(std::isnan(gradient));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace trireme
