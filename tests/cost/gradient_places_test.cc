#include "cost/gradient_places.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

RunConfig ConfigOf(const std::string& family, std::int64_t vocabulary) {
  RunConfig config;
  config.model.family = family;
  config.model.layers = 5;
  config.model.hidden = 32;
  config.model.heads = 4;
  config.model.vocabulary = vocabulary;
  config.model.sequence = 16;
  config.model = Completed(config.model);
  config.batch.global = 4;
  config.layout.micro_batch = 4;
  return config;
}

TEST(GradientPlaces, SeveralMicroBatchesHaveMemoryOfTheirOwn) {
  RunConfig config = ConfigOf("gpt2", 64);
  config.layout.micro_batch = 1;
  const StageOfRun stage(config, 0, 4);
  EXPECT_FALSE(GradientPlaces(stage.description()).over_activations);
}

// When a module's gradients are made, what lies below is still needed: the activations of the modules before it.
TEST(GradientPlaces, AModulesGradientsLieAboveTheActivationsThatBackwardStillNeeds) {
  for (const std::string family : {"gpt2", "bloom", "llama"}) {
    for (const std::int64_t vocabulary : {16, 64, 5000}) {
      const RunConfig config = ConfigOf(family, vocabulary);
      const StageOfRun stage(config, 0, 4);
      const GradientPlaces places(stage.description());
      ASSERT_TRUE(places.over_activations);
      const std::vector<std::int64_t> kept = KeptOfModules(stage.description(), 0);
      const std::vector<Bucket>& buckets = stage.description().shards.buckets;
      std::int64_t end = 0;
      for (const std::int64_t bytes : kept) {
        end += bytes;
      }
      for (std::size_t i = 0; i < buckets.size(); ++i) {
        std::int64_t needed = 0;  // by the modules that backward reaches later, and by this one itself
        const std::int64_t last = buckets[i].tied ? config.model.modules() - 1 : buckets[i].module;
        for (std::int64_t module = 0; module <= last; ++module) {
          needed += kept[static_cast<std::size_t>(module)];
        }
        EXPECT_GE(places.offsets[i], needed) << family << ", bucket of module " << buckets[i].module;
        EXPECT_LE(places.offsets[i] + buckets[i].count * 4, end + places.beyond);
        for (std::size_t j = 0; j < i; ++j) {
          const bool apart = places.offsets[i] + buckets[i].count * 4 <= places.offsets[j] ||
                             places.offsets[j] + buckets[j].count * 4 <= places.offsets[i];
          EXPECT_TRUE(apart) << "buckets " << j << " and " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
