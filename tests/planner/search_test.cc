#include "planner/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "message_of.h"
#include "planner/fixtures.h"
#include "planner/pricing/memory_estimate.h"
#include "planner/search/layout_space.h"

namespace trireme {
namespace {

using test::Bloom176b;
using test::Machine;
using test::MessageOf;
using test::SmallGpt;
using testing::HasSubstr;

std::int64_t Refused(const SearchResult& result) {
  std::int64_t sum = 0;
  for (const auto& [reason, count] : result.refused) {
    sum += count;
  }
  return sum;
}

// Prices every leaf of the space by itself.
std::vector<Candidate> Exhaustive(const SearchRequest& request) {
  std::vector<Candidate> all;
  for (const LayoutBranch& branch : LayoutBranches(request)) {
    if (!branch.refusal.empty()) {
      continue;
    }
    for (const int micro_batch : branch.micro_batches) {
      ParallelLayout layout = branch.layout;
      layout.micro_batch = micro_batch;
      if (RefusalOf(request, layout).empty()) {
        const Candidate candidate = Price(request, layout);
        if (candidate.peak <= UsableMemory(request.cluster) * (1 - request.headroom)) {
          all.push_back(candidate);
        }
      }
    }
  }
  std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
  return all;
}

TEST(Search, PruningIsExact) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = SmallGpt();
  SearchRequest request = machine.Request(model, 8, 16);
  request.keep = 10;
  const SearchResult found = Search(request);
  const std::vector<Candidate> all = Exhaustive(request);
  ASSERT_EQ(found.ranked.size(), 10U);
  for (std::size_t i = 0; i < found.ranked.size(); ++i) {
    EXPECT_DOUBLE_EQ(found.ranked[i].seconds, all[i].seconds) << i;
  }
  // The front: nothing of all is better in both.
  for (const Candidate& kept : found.front) {
    for (const Candidate& other : all) {
      EXPECT_FALSE(other.seconds < kept.seconds * (1 - 1e-12) && other.peak < kept.peak) << kept.layout.ToString();
    }
  }
  EXPECT_EQ(found.front.front().seconds, all.front().seconds);
}

// What the trainer refuses when a run starts is no layout of the search, and is told with the trainer's words.
TEST(Search, OffersWhatTheTrainerRuns) {
  const Machine machine("dgx-h100", "trireme");
  ModelConfig model = SmallGpt();
  model.adapter = {.rank = 8, .targets = "attention.qkv"};
  SearchRequest request = machine.Request(model, 8, 16);
  request.config.optimizer.kind = OptimizerKind::kMuon;
  request.keep = 1000;
  const SearchResult found = Search(request);
  ASSERT_FALSE(found.ranked.empty());
  for (const Candidate& candidate : found.ranked) {
    EXPECT_EQ(MessageOf([&] { Validate(ConfigOf(request, candidate.layout), 8); }), "") << candidate.layout.ToString();
  }
  EXPECT_GT(found.refused.at("Muon of LoRA adapters needs one tensor rank and no copies of shards"), 0);
  EXPECT_GT(found.refused.at("LoRA adapters train without offloading"), 0);
  EXPECT_EQ(found.enumerated, found.priced + found.pruned + Refused(found));
  ParallelLayout asked;
  asked.tensor = 2;
  asked.data = 4;
  EXPECT_THAT(MessageOf([&] { RequirePossible(request, asked); }), HasSubstr("use optimizer.name = 'adamw', or"));
  request.config.optimizer.kind = OptimizerKind::kAdamW;
  EXPECT_EQ(MessageOf([&] { RequirePossible(request, asked); }), "");
}

TEST(Search, EveryLayoutIsPricedPrunedOrRefused) {
  const Machine machine("jean-zay-a100", "megatron-ds-2022");
  const ModelConfig model = Bloom176b();
  const SearchResult found = Search(machine.Request(model, 384, 2048));
  EXPECT_EQ(found.enumerated, found.priced + found.pruned + Refused(found));
  EXPECT_GT(found.refused.at("out of device memory"), 0);
}

TEST(Search, ThreadsDoNotChangeTheRanking) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = SmallGpt(12);
  SearchRequest request = machine.Request(model, 32, 256);
  request.threads = 1;
  const SearchResult one = Search(request);
  request.threads = 3;
  const SearchResult three = Search(request);
  ASSERT_EQ(one.ranked.size(), three.ranked.size());
  for (std::size_t i = 0; i < one.ranked.size(); ++i) {
    EXPECT_EQ(one.ranked[i].layout, three.ranked[i].layout) << i;
  }
  EXPECT_EQ(one.enumerated, three.enumerated);
}

TEST(Search, RanksBloomsTopologyNearItsFirstChoice) {
  const Machine machine("jean-zay-a100", "megatron-ds-2022");
  const ModelConfig model = Bloom176b();
  const SearchResult found = Search(machine.Request(model, 384, 2048));
  double blooms = 0;
  for (const Candidate& one : found.ranked) {
    const ParallelLayout& l = one.layout;
    if (blooms == 0 && l.tensor == 4 && l.pipeline == 12 && l.data == 8 && l.micro_batch == 2) {
      blooms = one.seconds;
    }
  }
  ASSERT_GT(blooms, 0);
  EXPECT_LE(blooms / found.ranked.front().seconds, 1.02);
  // Fused attention, sequence parallelism and better schedules would have gained much.
  const Machine ours("jean-zay-a100", "trireme");
  EXPECT_LT(Search(ours.Request(model, 384, 2048)).ranked.front().seconds, 0.85 * blooms);
}

TEST(Search, HeldAxesHold) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = SmallGpt();
  SearchRequest request = machine.Request(model, 16, 64);
  request.tensor = 2;
  request.zero = 1;
  request.schedule = "1f1b";
  const SearchResult found = Search(request);
  ASSERT_FALSE(found.ranked.empty());
  for (const Candidate& one : found.ranked) {
    EXPECT_EQ(one.layout.tensor, 2);
    EXPECT_EQ(one.layout.zero, 1);
    EXPECT_EQ(one.layout.schedule, "1f1b");
  }
}

// A schedule says how many chunks it has: the search tries no others, and nothing has to be added for a new one.
TEST(Search, EveryScheduleOfTheStackIsSearched) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = SmallGpt();
  for (const std::string& schedule : machine.stack.features.schedules) {
    SearchRequest request = machine.Request(model, 8, 16);
    request.pipeline = 2;
    request.schedule = schedule;
    const SearchResult found = Search(request);
    ASSERT_FALSE(found.ranked.empty()) << schedule;
    const ScheduleKind* kind = FindScheduleKind(schedule);
    for (const Candidate& candidate : found.ranked) {
      EXPECT_GE(candidate.layout.chunks, kind->least_chunks) << schedule;
      EXPECT_LE(candidate.layout.chunks, kind->most_chunks) << schedule;
    }
  }
}

// 24 layers of 65,536 tokens keep more than a device holds where nothing is recomputed.
TEST(Search, ActivationsGoToTheHostWhereNothingElseFits) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = Completed(
      ModelConfig{.family = "gpt2", .layers = 24, .hidden = 2048, .heads = 16, .vocabulary = 50257, .sequence = 65536});
  SearchRequest request = machine.Request(model, 1, 1);
  request.recompute = "none";
  const SearchResult found = Search(request);
  ASSERT_FALSE(found.ranked.empty());
  for (const Candidate& candidate : found.ranked) {
    EXPECT_TRUE(candidate.layout.offload_activations) << candidate.layout.ToString();
    EXPECT_TRUE(Fits(request, candidate));
    EXPECT_EQ(MessageOf([&] { Validate(ConfigOf(request, candidate.layout), 1); }), "");
  }
  EXPECT_EQ(found.enumerated, found.priced + found.pruned + Refused(found));
  request.recompute = "full";  // fits on the device
  for (const Candidate& candidate : Search(request).ranked) {
    EXPECT_FALSE(candidate.layout.offload_activations) << candidate.layout.ToString();
  }
  const Machine other("dgx-h100", "megatron-core-2024");
  SearchRequest theirs = other.Request(model, 1, 1);
  theirs.recompute = "none";
  EXPECT_TRUE(Search(theirs).ranked.empty()) << "a program that cannot is not said to";
  theirs.offload_activations = true;
  EXPECT_THAT(MessageOf([&] { Search(theirs); }), HasSubstr("offload_activations"));
}

TEST(Search, HeldActivationsStayWhereTheyAreHeld) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = Completed(
      ModelConfig{.family = "gpt2", .layers = 24, .hidden = 2048, .heads = 16, .vocabulary = 50257, .sequence = 65536});
  SearchRequest request = machine.Request(model, 1, 1);
  request.recompute = "none";
  request.offload_activations = false;
  EXPECT_TRUE(Search(request).ranked.empty()) << "forbidden, they are not tried where nothing else fits";
  request.recompute = "full";  // fits on the device
  request.offload_activations = true;
  const SearchResult held = Search(request);
  ASSERT_FALSE(held.ranked.empty());
  for (const Candidate& candidate : held.ranked) {
    EXPECT_TRUE(candidate.layout.offload_activations) << candidate.layout.ToString();
  }
}

TEST(Search, NothingIsOffloadedWhereTheDeviceIsTheHost) {
  const Machine machine("laptop-cpu", "trireme");
  const ModelConfig model = SmallGpt();
  SearchRequest request = machine.Request(model, 4, 16);
  const SearchResult found = Search(request);
  ASSERT_FALSE(found.ranked.empty());
  for (const Candidate& candidate : found.ranked) {
    EXPECT_EQ(candidate.layout.offload, Offload::kNone) << candidate.layout.ToString();
  }
  request.offload = "optimizer";  // asked for, it is priced
  EXPECT_FALSE(Search(request).ranked.empty());
}

TEST(Search, ARampIsDividedAtEveryBatch) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = SmallGpt();
  SearchRequest request = machine.Request(model, 8, 64);
  request.ramp_unit = 4;
  const SearchResult found = Search(request);
  ASSERT_FALSE(found.ranked.empty());
  for (const Candidate& one : found.ranked) {
    EXPECT_EQ(4 % (one.layout.micro_batch * one.layout.data), 0) << one.layout.ToString();
  }
  EXPECT_GT(found.refused.at("batches of the ramp not divisible by the data degree"), 0);
}

TEST(Search, ImpossibleRequestsSayWhy) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = SmallGpt();
  EXPECT_THAT(MessageOf([&] { Search(machine.Request(model, 32768, 64)); }), HasSubstr("32768 devices asked for"));
  EXPECT_THAT(MessageOf([&] { Price(machine.Request(model, 8, 64), {.tensor = 4}); }),
              HasSubstr("4 ranks, but 8 devices"));
  EXPECT_THAT(MessageOf([&] { Price(machine.Request(model, 12, 64), {.tensor = 3, .data = 4}); }),
              HasSubstr("nearest tensor degree"));
  EXPECT_THAT(MessageOf([&] { Price(machine.Request(model, 8, 60), {.data = 8}); }), HasSubstr("global batch 60"));
  EXPECT_THAT(MessageOf([&] { Price(machine.Request(model, 8, 64), {.pipeline = 8, .schedule = "1f2b"}); }),
              HasSubstr("did you mean '1f1b'?"));
}

TEST(Search, ALargeAllocationTakesSeconds) {
  Machine machine("dgx-h100", "trireme");
  machine.cluster.nodes = 2048;
  const ModelConfig model = Bloom176b();
  const SearchResult found = Search(machine.Request(model, 16384, 4096));
  EXPECT_GT(found.enumerated, 100'000);
  EXPECT_FALSE(found.ranked.empty());
}

}  // namespace
}  // namespace trireme
