// The plan of what ranks take to reach each other over NCCL, against the groups that ranks do make.
#include "cost/communication_memory.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "comm/grid_comms.h"
#include "comm/rank_runner.h"
#include "operate/run_facts.h"
#include "schedule/schedule.h"

namespace trireme {
namespace {

struct Reached {
  std::vector<std::string> keys;
  int ways = 0;            // communicators of neighbours alone, of the first and the last stage
  int ways_in_middle = 0;  // of other stages
};

RunConfig SmallConfig(const std::vector<std::string>& keys) {
  std::vector<std::string> all = {"model.layers=4",       "model.hidden=64",      "model.heads=4",  "model.sequence=16",
                                  "model.vocabulary=128", "layout.micro_batch=1", "batch.global=8", "train.dtype=bf16"};
  all.insert(all.end(), keys.begin(), keys.end());
  RunConfig config = ParseRecipe("", "reach.toml", all).config;
  Validate(config, 0);
  return config;
}

// Groups of more than one member.
int GroupsOf(GridComms& comms) {
  std::vector<Communicator*> groups = {&comms.world(), &comms.tensor(),   &comms.context(),
                                       &comms.data(),  &comms.pipeline(), &comms.tied()};
  if (comms.has_context_groups()) {
    groups.insert(groups.end(), {&comms.context_heads(), &comms.context_ring()});
  }
  if (comms.has_copies()) {
    groups.insert(groups.end(), {&comms.shards(), &comms.copies()});
  }
  int found = 0;
  for (const Communicator* group : groups) {
    found += group->size() > 1 ? 1 : 0;
  }
  return found;
}

TEST(CommunicationMemory, CountsTheGroupsThatRanksMakeAndTheirWays) {
  const std::vector<Reached> cases = {
      {{}, 0},
      {{"layout.tensor=2"}, 0},
      {{"layout.data=2", "layout.zero=3"}, 0},
      {{"layout.data=4", "layout.zero=2", "layout.shard_ranks=2"}, 0},
      {{"layout.pipeline=2"}, 2},
      {{"layout.pipeline=4", "layout.tensor=2"}, 2, 4},
      {{"layout.pipeline=2", "layout.schedule=interleaved", "layout.chunks=2"}, 2},
      {{"layout.pipeline=4", "layout.schedule=interleaved", "layout.chunks=2", "model.layers=8"}, 4, 4},
      {{"layout.pipeline=2", "layout.schedule=zero_bubble_v", "layout.chunks=2"}, 2},
      {{"layout.pipeline=4", "layout.schedule=zero_bubble_v", "layout.chunks=2", "model.layers=8"}, 2, 4},
      {{"layout.context=2"}, 0},
      {{"layout.context=2", "layout.context_kind=ring"}, 2},
      {{"layout.context=4", "layout.context_kind=ring", "layout.data=2"}, 4},
      {{"layout.context=4", "layout.context_kind=ulysses+ring"}, 2},
  };
  for (const Reached& reached : cases) {
    const RunConfig config = SmallConfig(reached.keys);
    const int head_stage = PlacementOf(config.layout).HeadStage();
    RunThreadRanks(config.layout.ranks(), {.kind = "cpu", .threads = 1}, [&](RankContext& context) {
      const int pipeline = ProcessGrid(config.layout).CoordinateOf(context.world.rank()).pipeline;
      const StageOfRun stage(config, pipeline, config.batch.global);
      GridComms comms(context.world, config.layout, head_stage, stage.description().sizes.head_ranks);
      const CommunicationMemory memory = CommunicationOf(stage.description());
      const bool in_middle = pipeline > 0 && pipeline + 1 < config.layout.pipeline;
      const int ways = in_middle ? reached.ways_in_middle : reached.ways;
      EXPECT_EQ(memory.communicators, GroupsOf(comms) + ways) << config.layout.ToString() << " stage " << pipeline;
      EXPECT_GE(memory.total(), memory.communicators * kCommunicatorBytes);
      if (config.layout.context == 1) {
        EXPECT_EQ(memory.buffers, 2 * ways * 16 * 64 * 2) << config.layout.ToString();  // two a way
      }
    });
  }
}

TEST(CommunicationMemory, StagesInTheMiddleHaveMostBuffersAndARingHasThoseOfKeys) {
  const RunConfig pipeline = SmallConfig({"layout.pipeline=4"});
  const auto buffers = [](const RunConfig& config, int stage) {
    return CommunicationOf(StageOfRun(config, stage, config.batch.global).description()).buffers;
  };
  EXPECT_EQ(buffers(pipeline, 1), 2 * buffers(pipeline, 0));
  EXPECT_EQ(buffers(pipeline, 3), buffers(pipeline, 0));
  const RunConfig ring = SmallConfig({"layout.context=2", "layout.context_kind=ring"});
  // Two for each of two ways: keys and values of 8 tokens in bf16 and their gradients in fp32.
  EXPECT_EQ(buffers(ring, 0), 2 * 2 * (8 * 2 * 64 * 2 + 8 * 2 * 64 * 4));
}

TEST(CommunicationMemory, IsToldWithWhatTheDeviceHolds) {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  EXPECT_EQ(Describe({.used = 10 * kGiB, .arena = 7 * kGiB, .workspaces = kGiB}),
            "device memory: 10.00 GiB in use; planned 7.00, workspaces 1.00, 2.00 more (contexts, kernels, other "
            "programs)");
  EXPECT_EQ(Describe({.used = 10 * kGiB,
                      .arena = 6 * kGiB,
                      .communication_planned = kGiB,
                      .communication = kGiB / 2,
                      .workspaces = kGiB}),
            "device memory: 10.00 GiB in use; planned 7.00 (1.00 of it for NCCL, which took 0.50), workspaces 1.00, "
            "2.50 more (contexts, kernels, other programs)");
}

}  // namespace
}  // namespace trireme
