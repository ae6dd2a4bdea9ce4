#include "planner/queries/plan_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message_of.h"
#include "planner/fixtures.h"

namespace trireme {
namespace {

using test::Machine;
using test::MessageOf;
using test::SmallGpt;
using testing::HasSubstr;
using testing::Not;

PlanAnswer Answer(const PlanOptions& options) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = SmallGpt();
  return AnswerPlan({.cluster = machine.cluster, .stack = machine.stack, .model = model}, options);
}

TEST(PlanAnswer, RanksAndSaysWhichBatchItTook) {
  const PlanAnswer answer = Answer({.gpus = 4, .rows = 3});
  EXPECT_TRUE(answer.found);
  EXPECT_THAT(answer.text, HasSubstr("layout"));
  EXPECT_FALSE(answer.json.empty());
  ASSERT_EQ(answer.notes.size(), 1U);
  EXPECT_THAT(answer.notes[0], HasSubstr("no --global-batch given"));
  EXPECT_TRUE(answer.files.empty());
}

TEST(PlanAnswer, ARefusedLayoutNamesAnother) {
  const Machine machine("dgx-h100", "nanotron-2025");
  const ModelConfig model = SmallGpt();
  const PlanAnswer answer = AnswerPlan({.cluster = machine.cluster, .stack = machine.stack, .model = model},
                                       {.gpus = 4, .global_batch = 8, .layout = "cp=2 dp=2"});
  EXPECT_FALSE(answer.found);
  EXPECT_THAT(answer.text, HasSubstr("use sp instead of cp"));
  EXPECT_NE(answer.json.at("instead"), "");
}

TEST(PlanAnswer, TheLongestSequenceFitsAndTheNextDoesNot) {
  const PlanAnswer answer = Answer({.gpus = 1, .global_batch = 1, .max_sequence = true});
  const auto tokens = answer.json.at("tokens").get<std::int64_t>();
  const auto too_long = answer.json.at("too_long").get<std::int64_t>();
  EXPECT_GE(tokens, 1024);
  EXPECT_GT(too_long, tokens);
  EXPECT_THAT(answer.text, HasSubstr(std::to_string(tokens) + " tokens fit: "));
  const Machine machine("dgx-h100", "trireme");
  const auto fits = [&](std::int64_t sequence) {
    ModelConfig model = SmallGpt();
    model.sequence = sequence;
    return AnswerPlan({.cluster = machine.cluster, .stack = machine.stack, .model = model},
                      {.gpus = 1, .global_batch = 1})
        .found;
  };
  EXPECT_TRUE(fits(tokens));
  EXPECT_FALSE(fits(too_long));
  EXPECT_THAT(MessageOf([] { RequireConsistent({.layout = "dp=1", .max_sequence = true}); }),
              HasSubstr("leave out --layout"));
}

TEST(PlanAnswer, DrawsWhoHoldsWhatAlongTheContextAxis) {
  const PlanAnswer answer = Answer({.gpus = 4, .global_batch = 1, .layout = "cp=4:ring dp=1"});
  EXPECT_THAT(answer.text, HasSubstr("rank   1  .1....1.  25.00 % of attention"));
  EXPECT_THAT(answer.text, HasSubstr("forward 3 x send of"));
  EXPECT_THAT(Answer({.gpus = 4, .global_batch = 1, .layout = "cp=4:ulysses+ring dp=1"}).text,
              HasSubstr("groups of 2 ranks have"));
  EXPECT_THAT(Answer({.gpus = 4, .global_batch = 4, .layout = "dp=4"}).text, testing::Not(HasSubstr("context axis")));
}

TEST(PlanAnswer, HeldAxesAndTheTimelineAreFollowed) {
  const PlanAnswer held = Answer({.gpus = 4, .rows = 2, .global_batch = 16, .fix = "pp=2 schedule=zero_bubble_v"});
  EXPECT_THAT(held.text, HasSubstr("zero_bubble_v"));
  const PlanAnswer traced = Answer({.gpus = 2, .global_batch = 8, .layout = "pp=2 dp=1", .timeline = "trace.json"});
  ASSERT_EQ(traced.files.size(), 1U);
  EXPECT_EQ(traced.files[0].path, "trace.json");
}

// What is not given is free: false is as much of an answer as true.
TEST(PlanAnswer, TruthsAreHeldEitherWay) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = Completed(
      ModelConfig{.family = "gpt2", .layers = 24, .hidden = 2048, .heads = 16, .vocabulary = 50257, .sequence = 65536});
  const auto found = [&](const std::string& fix) {
    return AnswerPlan({.cluster = machine.cluster, .stack = machine.stack, .model = model},
                      {.gpus = 1, .rows = 2, .global_batch = 1, .fix = fix});
  };
  EXPECT_THAT(found("recompute=none").text, HasSubstr(" offload_activations"));
  EXPECT_FALSE(found("recompute=none offload_activations=false").found);
  EXPECT_THAT(found("recompute=full").text, Not(HasSubstr(" offload_activations")));
  EXPECT_THAT(found("recompute=full offload_activations=true").text, HasSubstr(" offload_activations"));
  EXPECT_EQ(found("recompute=full offload_activations").text, found("recompute=full offload_activations=true").text);
  const auto sequences = [](const std::string& fix) {
    return Answer({.gpus = 4, .rows = 2, .global_batch = 16, .fix = "tp=4 " + fix}).text;
  };
  EXPECT_THAT(sequences("sp=true"), HasSubstr(" sp1\n"));
  EXPECT_THAT(sequences("sp=false"), Not(HasSubstr(" sp1")));
}

TEST(PlanAnswer, WhatNoSearchVariesIsNotHeldInSilence) {
  for (const char* const word : {"shards=2", "whole=1000", "reduce=bf16", "gather=bf16"}) {
    EXPECT_THAT(MessageOf([&] { Answer({.gpus = 4, .global_batch = 16, .fix = word}); }),
                HasSubstr("a search does not vary it"))
        << word;
  }
}

TEST(PlanOptions, ContradictionsAreRefused) {
  EXPECT_THAT(MessageOf([] { RequireConsistent({.nodes = 2, .gpus = 3}); }), HasSubstr("give one of them"));
  EXPECT_THAT(MessageOf([] { RequireConsistent({.estimate = true}); }), HasSubstr("--estimate needs --tokens"));
  EXPECT_THAT(MessageOf([] { RequireConsistent({.emit = "recipes"}); }), HasSubstr("must be recipe, sbatch"));
  EXPECT_THAT(MessageOf([] { RequireConsistent({.optimizer = "adam"}); }),
              HasSubstr("--optimizer 'adam' is unknown (did you mean 'adamw'?); known: adamw, adafactor"));
}

TEST(PlanOptions, OtherOptimizersAreOfStacksThatCountCosts) {
  EXPECT_TRUE(Answer({.optimizer = "lion", .gpus = 4, .rows = 1, .global_batch = 16}).found);
  const Machine machine("dgx-h100", "megatron-core-2024");
  const ModelConfig model = SmallGpt();
  EXPECT_THAT(MessageOf([&] {
                AnswerPlan({.cluster = machine.cluster, .stack = machine.stack, .model = model},
                           {.optimizer = "lion", .gpus = 4, .global_batch = 16});
              }),
              HasSubstr("only memory and time with adamw and adafactor are known"));
}

TEST(ModelOfShape, ANewWidthTakesItsFamilysFeedForward) {
  const ModelConfig named = SmallGpt();
  const ModelConfig wider = ModelOfShape(&named, {.hidden = 2 * named.hidden});
  EXPECT_EQ(wider.layers, named.layers);
  EXPECT_EQ(wider.ffn, 4 * wider.hidden);
  EXPECT_EQ(ModelOfShape(nullptr, {.layers = 2, .hidden = 64, .heads = 2}).vocabulary, 50'304);
}

}  // namespace
}  // namespace trireme
