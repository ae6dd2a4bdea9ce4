// What a machine cannot run is refused before the run starts, also where there is no GPU to ask.
#include "operate/run_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message_of.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunConfig OnGpus(const ParallelLayout& layout, const std::string& attention) {
  RunConfig config;
  config.model.family = "llama";
  config.layout = layout;
  config.train.device = "cuda";
  config.train.attention = attention;
  return config;
}

std::string Refusal(const RunConfig& config) {
  return trireme::testing::MessageOf([&] { RequireMachine(config, true, false); });
}

TEST(RunStart, PlainAttentionOnGpusHasAllKeysWhereItsQueriesAre) {
  const ParallelLayout gathered{.context = 2};
  EXPECT_THAT(Refusal(OnGpus(gathered, "plain")),
              HasSubstr("train.attention = 'plain' with layout.context = 2 on train.device = 'cuda'"));
  EXPECT_THAT(Refusal(OnGpus(gathered, "flash")), Not(HasSubstr("plain attention has all keys")));
  EXPECT_THAT(Refusal(OnGpus({.context = 2, .context_kind = ContextKind::kUlysses}, "plain")),
              Not(HasSubstr("plain attention has all keys")));
  RunConfig host = OnGpus(gathered, "plain");
  host.train.device = "cpu";
  EXPECT_THAT(Refusal(host), Not(HasSubstr("plain attention has all keys")));
}

TEST(RunStart, GpusTakeSoManyChunksOfKeys) {
  EXPECT_THAT(Refusal(OnGpus({.context = 8, .context_stripes = 17}, "flash")),
              HasSubstr("256 chunks of keys at most, and these are 272"));
  EXPECT_THAT(Refusal(OnGpus({.context = 8, .context_stripes = 16}, "flash")), Not(HasSubstr("chunks of keys")));
}

}  // namespace
}  // namespace trireme
