#include <gtest/gtest.h>

#include "operate/training_loop.h"
#include "train/late_device.h"

namespace trireme {
namespace {

std::vector<double> LossesOn(Device& device, const std::vector<std::string>& keys) {
  std::vector<std::string> all = {"model.layers=3",   "model.hidden=16",      "model.heads=2",  "model.vocabulary=32",
                                  "model.sequence=8", "layout.micro_batch=1", "batch.global=2", "train.steps=4"};
  all.insert(all.end(), keys.begin(), keys.end());
  const RunConfig config = ParseRecipe("", "test.toml", all).config;
  const auto source = OpenRunSource(config, "train");
  std::vector<double> losses;
  RunThreadRanks(1, {.kind = "cpu"}, [&](RankContext& context) {
    RankContext own{device, context.world};
    Trainer trainer(config, own, {.train = source.get()});
    for (int step = 0; step < 4; ++step) {
      losses.push_back(trainer.Step().loss);
    }
  });
  return losses;
}

TEST(Offload, WeightsThatComeLateAreWaitedFor) {
  for (const std::string dtype : {"train.dtype=fp32", "train.dtype=bf16"}) {
    const auto cpu = MakeCpuDevice({});
    const std::vector<double> expected = LossesOn(*cpu, {dtype});
    for (const char* zero : {"layout.zero=0", "layout.zero=3"}) {
      LateDevice late;
      EXPECT_EQ(LossesOn(late, {dtype, zero, "layout.offload=full"}), expected) << dtype << ", " << zero;
      EXPECT_GT(late.tasks, 0);
    }
  }
}

}  // namespace
}  // namespace trireme
