#include "planner/search/at_most.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message_of.h"
#include "planner/fixtures.h"
#include "planner/queries/deadline.h"
#include "planner/queries/plan_text.h"
#include "planner/queries/shapes.h"

namespace trireme {
namespace {

using test::Bloom176b;
using test::Machine;
using test::SmallGpt;
using testing::HasSubstr;

ModelConfig Decoder(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  return Completed(ModelConfig{
      .family = "gpt2", .layers = layers, .hidden = hidden, .heads = heads, .vocabulary = 50304, .sequence = 2048});
}

// The fastest over all smaller allocations, each searched by itself.
double Fastest(const SearchRequest& request) {
  double best = HUGE_VAL;
  for (int devices = request.devices; devices >= 1; --devices) {
    if (devices % request.cluster.devices_per_node == 0 || devices < request.cluster.devices_per_node) {
      SearchRequest one = request;
      one.devices = devices;
      one.keep = 1;
      const SearchResult found = Search(one);
      best = found.ranked.empty() ? best : std::min(best, found.ranked.front().seconds);
    }
  }
  return best;
}

TEST(AtMost, IsTheFastestOfAllSmallerAllocations) {
  const Machine machine("dgx-h100", "trireme");
  for (const std::int64_t layers : {8, 10}) {
    for (const int nodes : {1, 3, 5, 7}) {
      SearchRequest request = machine.Request(SmallGpt(layers), 8 * nodes, 96);
      request.recompute = "none";
      const AtMostResult most = SearchAtMost(request);
      ASSERT_FALSE(most.found.ranked.empty());
      EXPECT_EQ(most.found.ranked.front().seconds, Fastest(request)) << layers << " layers, " << nodes << " nodes";
      EXPECT_EQ(most.found.ranked.front().layout.ranks(), most.devices);
    }
  }
}

TEST(AtMost, MoreNodesAreNeverSlower) {
  Machine machines[] = {{"dgx-h100", "trireme"}, {"jean-zay-a100", "megatron-ds-2022"}};
  int idle = 0;
  for (Machine& machine : machines) {
    machine.cluster.nodes = 64;
    for (const ModelConfig& model : {SmallGpt(), Decoder(30, 4096, 32), Decoder(70, 8192, 64)}) {
      SearchRequest request = machine.Request(model, 8, 480);
      request.recompute = model.layers > 8 ? "full" : "none";
      request.zero = 1;
      request.schedule = "1f1b";
      request.offload = "none";
      request.partition = "balanced";
      request.sequence_parallel = false;
      request.most_micro_batch = 4;
      request.keep = 1;
      double last = HUGE_VAL;
      for (int nodes = 1; nodes <= 64; ++nodes) {
        request.devices = 8 * nodes;
        const AtMostResult most = SearchAtMost(request);
        const double seconds = most.found.ranked.empty() ? HUGE_VAL : most.found.ranked.front().seconds;
        EXPECT_LE(seconds, last) << machine.cluster.name << ", " << model.layers << " layers, " << nodes << " nodes";
        last = seconds;
        idle += most.devices < request.devices ? 1 : 0;
      }
      EXPECT_LT(last, HUGE_VAL);
    }
  }
  EXPECT_GT(idle, 64) << "awkward numbers of nodes leave some idle";
}

TEST(AtMost, SaysHowManyDevicesAreIdleAndWhy) {
  const Machine machine("jean-zay-a100", "megatron-ds-2022");
  SearchRequest request = machine.Request(Bloom176b(), 51 * 8, 2048);
  request.tensor = 4;
  request.keep = 3;
  const AtMostResult most = SearchAtMost(request);
  EXPECT_EQ(most.devices, 50 * 8) << "25 stages of 16 ranks";
  EXPECT_THAT(IdleText(most, request), HasSubstr("400 of 408 devices work, 8 (1 node) idle: the fastest layout on"));
  EXPECT_EQ(most.found.ranked.size(), 3U);
  for (const Candidate& one : most.found.ranked) {
    EXPECT_EQ(one.layout.ranks(), 400);
  }
  request.devices = 384;
  EXPECT_EQ(IdleText(SearchAtMost(request), request), "");
}

// A model that no part of the allocation can hold is refused without a search of every part.
TEST(AtMost, EndsWhereTheStateHasNoRoom) {
  Machine machine("dgx-h100", "trireme");
  machine.cluster.nodes = 4096;
  SearchRequest request = machine.Request(Decoder(256, 65536, 512), 8 * 64, 512);
  request.keep = 1;
  request.tensor = 8;
  request.schedule = "1f1b";
  request.recompute = "full";
  const AtMostResult most = SearchAtMost(request);
  EXPECT_TRUE(most.found.ranked.empty());
  EXPECT_EQ(most.devices, request.devices);
  EXPECT_EQ(IdleText(most, request), "");
  EXPECT_TRUE(SearchUntilOneFits(request).found.ranked.empty());
}

// What fits an allocation has room by the bound that ends a search, on every smaller number of nodes too.
TEST(AtMost, TheBoundOfMemoryHidesNoLayout) {
  for (const char* const stack : {"trireme", "megatron-ds-2022", "deepspeed-2021"}) {
    const Machine machine("jean-zay-v100-16g", stack);
    for (const int nodes : {1, 2, 3, 5, 9}) {
      SearchRequest request = machine.Request(Decoder(32, 4096, 32), 4 * nodes, 64);
      request.recompute = "full";
      request.schedule = "1f1b";
      request.micro_batch = 1;
      request.config.train.dtype = "fp16";
      request.keep = 1;
      const AtMostResult most = SearchAtMost(request);
      EXPECT_EQ(most.found.ranked.empty() ? HUGE_VAL : most.found.ranked.front().seconds, Fastest(request))
          << stack << ", " << nodes << " nodes";
    }
  }
}

// A larger allocation must be worth its devices.
TEST(AtMost, TakesTheFewestThatAreAsFast) {
  const Machine machine("dgx-h100", "trireme");
  SearchRequest request = machine.Request(SmallGpt(), 8 * 8, 16);
  request.recompute = "none";
  request.keep = 1;
  const AtMostResult fastest = SearchAtMost(request);
  const AtMostResult worth = SearchAtMost(request, 0.5);
  EXPECT_LT(worth.devices, fastest.devices);
  EXPECT_LE(worth.found.ranked.front().seconds, 1.5 * fastest.found.ranked.front().seconds);
  EXPECT_EQ(worth.found.ranked.front().layout.ranks(), worth.devices);
}

// The questions that look for a model ask each of these on at most the devices.
TEST(AtMost, ShapesAndSequencesMayLeaveDevicesIdle) {
  const Machine machine("dgx-h100", "trireme");
  SearchRequest request = machine.Request(SmallGpt(), 3 * 8, 16);
  request.tensor = request.pipeline = 1;
  request.zero = 1;
  request.recompute = "none";
  request.offload = "none";
  request.most_micro_batch = 8;
  EXPECT_THAT(test::MessageOf([&] { LargestModel(request); }), HasSubstr("global batch not divisible"));
  request.may_idle = true;
  const ShapeProposal largest = LargestModel(request);
  EXPECT_GT(largest.parameters, 1'000'000'000);
  EXPECT_LT(largest.best.layout.ranks(), 24);
  EXPECT_THAT(ToText(std::vector{largest}), HasSubstr(" of 24 devices work, "));
  const std::vector<ShapeProposal> shapes = SearchShapes(request, 30'000'000, 3);
  ASSERT_FALSE(shapes.empty());
  EXPECT_LT(shapes.front().best.layout.ranks(), 24);
  const LongestSequence longest = FindLongestSequence(request);
  EXPECT_GT(longest.tokens, 1024);
  EXPECT_THAT(ToText(longest), HasSubstr(" of 24 devices work, "));
}

TEST(AtMost, ADeadlineNamesTheLeastNodesThatMakeIt) {
  const Machine machine("jean-zay-a100", "megatron-ds-2022");
  SearchRequest request = machine.Request(Bloom176b(), 24 * 8, 2048);
  request.tensor = 4;
  request.micro_batch = 2;
  const double tokens = 400e9;
  const double days = 115;
  int least = 0;
  for (int nodes = 24; least == 0 && nodes <= 52; ++nodes) {
    SearchRequest one = request;
    one.devices = 8 * nodes;
    const SearchResult found = Search(one);
    if (!found.ranked.empty() && TimeOfTraining(one, found.ranked.front(), tokens).days <= days) {
      least = nodes;
    }
  }
  ASSERT_GT(least, 40);
  EXPECT_EQ(NodesForDeadline(request, tokens, days).nodes, least);
  request.devices = 46 * 8;
  EXPECT_EQ(NodesForDeadline(request, tokens, days).nodes, std::max(least, 46)) << "wherever the search begins";
}

}  // namespace
}  // namespace trireme
