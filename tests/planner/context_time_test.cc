// What attention waits for of its context group's exchanges: ring messages overlap, others do not.
#include "planner/pricing/context_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lowering/ring_plan.h"
#include "message_of.h"
#include "planner/fixtures.h"
#include "planner/queries/context_figure.h"
#include "planner/queries/explain.h"
#include "planner/queries/length_figure.h"

namespace trireme {
namespace {

using test::Machine;
using testing::HasSubstr;
using testing::Not;

ModelConfig Llama() {
  ModelConfig model;
  model.family = "llama";
  model.layers = 4;
  model.hidden = 256;
  model.heads = 16;
  model.kv_heads = 8;
  model.ffn = 512;
  model.vocabulary = 1024;
  model.sequence = 512;
  return Completed(model);
}

double BytesOf(const Traffic& traffic) {
  double bytes = 0;
  for (std::size_t kind = 0; kind < traffic.bytes.size(); ++kind) {
    bytes +=
        static_cast<CollectiveKind>(kind) == CollectiveKind::kReceive ? 0 : static_cast<double>(traffic.bytes[kind]);
  }
  return bytes;
}

// Every step of the ring in turn: it ends when both its messages and its part of attention are done.
double RingByHand(int ranks, double key, double gradient, double attention, bool backward) {
  double seconds = 0;
  for (int step = 0; step < ranks; ++step) {
    const double messages = (step + 1 < ranks ? key : 0) + (backward && step > 0 ? gradient : 0);
    seconds += std::max(messages, attention / ranks);
  }
  return seconds + (backward ? gradient : 0) - attention;
}

TEST(WaitForContext, AStepOfTheRingTakesTheLongerOfMessagesAndAttention) {
  const ModelConfig model = Llama();
  for (const int ranks : {2, 4, 8}) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
      const ParallelLayout layout{.context = ranks, .recompute = recompute, .context_kind = ContextKind::kRing};
      const LocalSizes sizes(model, layout, DType::kBFloat16, false);
      const ModuleCost cost = CostOfBlock(sizes, model);
      const double key = BytesOf(RingPlan(sizes, false).traffic) / (ranks - 1);
      for (const double share : {0.1, 0.9, 1.5, 2.5, 4.0}) {  // of a message that attention's step takes
        const AttentionSeconds attention{.forward = share * key * ranks, .backward = 2.5 * share * key * ranks};
        const double forward = RingByHand(ranks, key, 2 * key, attention.forward, false);
        const double backward = RingByHand(ranks, key, 2 * key, attention.backward, true);
        const double again = recompute == Recompute::kFull ? forward : 0;
        const ContextWait wait = WaitForContext(sizes, cost, attention, true, BytesOf);
        EXPECT_NEAR(wait.forward, forward, 1e-6 * key) << ranks << " ranks, " << share;
        EXPECT_NEAR(wait.backward, backward + again, 1e-6 * key) << ranks << " ranks, " << share;
        const ContextWait turns = WaitForContext(sizes, cost, attention, false, BytesOf);
        EXPECT_DOUBLE_EQ(turns.forward, BytesOf(cost.forward.context));
        EXPECT_DOUBLE_EQ(turns.backward, BytesOf(cost.backward_input.context));
      }
    }
  }
}

TEST(WaitForContext, OtherExchangesAreWaitedFor) {
  const ModelConfig model = Llama();
  for (const ContextKind kind : {ContextKind::kAllGather, ContextKind::kUlysses}) {
    const LocalSizes sizes(model, {.context = 4, .context_kind = kind}, DType::kBFloat16, false);
    const ModuleCost cost = CostOfBlock(sizes, model);
    const ContextWait wait = WaitForContext(sizes, cost, {.forward = 1e12, .backward = 1e12}, true, BytesOf);
    EXPECT_DOUBLE_EQ(wait.forward, BytesOf(cost.forward.context)) << Name(kind);
    EXPECT_DOUBLE_EQ(wait.backward, BytesOf(cost.backward_input.context)) << Name(kind);
  }
  // Both: the all-to-all is waited for, and of the ring the message home.
  const LocalSizes sizes(model, {.context = 8, .context_kind = ContextKind::kUlyssesRing, .ulysses = 2},
                         DType::kBFloat16, false);
  const ModuleCost cost = CostOfBlock(sizes, model);
  const Traffic keys = RingPlan(sizes.OfAttention(), false).traffic;
  const ContextWait wait = WaitForContext(sizes, cost, {.forward = 1e12, .backward = 1e12}, true, BytesOf);
  constexpr auto kSwap = static_cast<std::size_t>(CollectiveKind::kAllToAll);
  EXPECT_DOUBLE_EQ(wait.forward, static_cast<double>(cost.forward.context.bytes[kSwap]));
  EXPECT_DOUBLE_EQ(wait.backward,
                   static_cast<double>(cost.backward_input.context.bytes[kSwap]) + 2 * BytesOf(keys) / 3);
}

// Long sequences hide the ring; across nodes its messages are longer than within one.
TEST(WaitForContext, LinksDecideWhatOfARingShows) {
  Machine machine("dgx-h200", "trireme");
  ModelConfig model = Llama();
  model.sequence = 32768;
  PipelineClock clock;
  const auto shown = [&](int context, std::int64_t sequence) {
    model.sequence = sequence;
    const PlanPoint point = machine.Point(model, {.context = context, .context_kind = ContextKind::kRing}, 1);
    const StepTerms terms = EstimateStep(point, ModelAccount(model), clock).terms;
    return terms.context / terms.attention;
  };
  EXPECT_LT(shown(4, 131072), shown(4, 16384));
  EXPECT_LT(shown(8, 16384), shown(16, 16384));  // two nodes
}

TEST(Explain, TellsTheContextAxisFromTheOthers) {
  const Machine machine("dgx-h200", "trireme");
  const ModelConfig model = Llama();
  SearchRequest request = machine.Request(model, 4, 1);
  const Explanation with = Explain(request, {.context = 4, .context_kind = ContextKind::kRing});
  ASSERT_EQ(with.instead.size(), 3U);
  EXPECT_EQ(with.instead[0].layout.tensor, 4);
  EXPECT_EQ(with.instead[0].layout.context, 1);
  EXPECT_GT(with.instead[0].seconds, 0);
  EXPECT_GT(with.instead[1].seconds, 0);
  EXPECT_THAT(with.instead[2].refusal, Not(testing::IsEmpty()));  // one sequence, four data ranks
  const std::string text = ToText(with, request);
  EXPECT_THAT(text, HasSubstr("the 4 context ranks as ranks of another axis"));
  EXPECT_THAT(text, HasSubstr(" % ahead of "));
  EXPECT_THAT(ToJson(with, request), HasSubstr("instead_of_context"));
  EXPECT_THAT(ToText(Explain(request, {.tensor = 4}), request), Not(HasSubstr("context ranks as")));
}

TEST(ContextFigure, DrawsWhatMovesWhen) {
  const Machine machine("dgx-h200", "trireme");
  const ModelConfig model = Llama();
  const auto figure = [&](ContextKind kind, int ulysses) {
    return ContextFigure(machine.Point(model, {.context = 4, .context_kind = kind, .ulysses = ulysses}, 1));
  };
  // Rank 1 works on its own keys, then on those of rank 0, which came from there, and so around.
  EXPECT_THAT(figure(ContextKind::kRing, 0), HasSubstr("    rank 1        1>   0>   3>   2\n"));
  EXPECT_THAT(figure(ContextKind::kAllGather, 0), HasSubstr("all-gather of keys and values, then attention"));
  EXPECT_THAT(figure(ContextKind::kUlysses, 0), HasSubstr("all-to-all from tokens to heads"));
  EXPECT_THAT(figure(ContextKind::kUlyssesRing, 2), HasSubstr("    group 1        1>   0\n"));
}

TEST(LengthFigure, TimeAndMemoryGrowWithTheSamples) {
  const Machine machine("dgx-h200", "trireme");
  const ModelConfig model = Llama();
  const SearchRequest request = machine.Request(model, 4, 1);
  const ParallelLayout layout{.context = 4, .context_kind = ContextKind::kRing};
  const std::vector<LengthPoint> points = PriceLengths(request, layout, ParseLengths("4096,4098,65536"));
  ASSERT_EQ(points.size(), 3U);
  EXPECT_GT(points[2].seconds, 4 * points[0].seconds);
  EXPECT_GT(points[2].attention, points[0].attention);
  EXPECT_GT(points[2].peak, points[0].peak);
  EXPECT_THAT(points[1].refusal, HasSubstr("4098"));
  EXPECT_THAT(LengthFigure(points), HasSubstr("    65536 "));
  EXPECT_THAT(test::MessageOf([] { ParseLengths("8192,long"); }), HasSubstr("'long' is no number of tokens"));
}

}  // namespace
}  // namespace trireme
