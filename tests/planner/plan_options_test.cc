// No option is read by some questions and silently ignored by others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "message_of.h"
#include "planner/fixtures.h"
#include "planner/queries/plan_answer.h"
#include "planner/queries/plan_question.h"

namespace trireme {
namespace {

using test::Machine;
using test::MessageOf;
using test::SmallGpt;
using test::Source;
using testing::HasSubstr;

std::string FileText(const std::string& path) {
  std::ifstream file(Source(path));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

nlohmann::json AnswerTo(const nlohmann::json& options) {
  nlohmann::json all{{"layers", 8}, {"hidden", 512}, {"heads", 8}, {"vocabulary", 50304}, {"sequence", 256}};
  all.update(options);
  nlohmann::json question{{"cluster", FileText("clusters/dgx-h100.toml")},
                          {"stack", FileText("stacks/trireme.toml")},
                          {"model", nlohmann::json::object()},
                          {"options", all}};
  return ParseJson(AnswerQuestion(JsonText(question)));
}

struct BaseQuestion {
  const char* name;
  nlohmann::json options;
};

std::vector<BaseQuestion> Questions() {
  const nlohmann::json held{{"gpus", 16}, {"global-batch", 16}, {"fix", "tp=1 pp=1 zero=1 recompute=none"}};
  const auto with = [&](nlohmann::json more) {
    nlohmann::json options = held;
    options.update(more);
    return options;
  };
  return {{"ranking", held},
          {"layout", {{"gpus", 16}, {"global-batch", 16}, {"layout", "tp=1 pp=2 recompute=none"}}},
          {"max-size", with({{"max-size", true}})},
          {"search-shape", with({{"search-shape", "30M"}})},
          {"max-sequence", with({{"max-sequence", true}})},
          {"node-schedule", with({{"node-schedule", true}, {"ramp", "8,4,100"}})},
          {"phases",
           {{"phases", "2:1,4"}, {"global-batch", 16}, {"tokens", 1e12}, {"fix", "tp=1 pp=1 zero=1 recompute=none"}}}};
}

struct Given {
  const char* name;
  nlohmann::json value;
};

// With values that change what is asked.
std::vector<Given> Options() {
  return {{"nodes", 1},
          {"gpus", 8},
          {"spare-nodes", 1},
          {"global-batch", 32},
          {"tokens", 3e11},
          {"dtype", "fp32"},
          {"optimizer", "lion"},
          {"moments", "bf16"},
          {"attention", "plain"},
          {"powersgd", 4},
          {"headroom", 0.9999},
          {"fix", "tp=2 pp=1 zero=1 recompute=full"},
          {"deadline", 1e-6},
          {"allocation", 1e-6},
          {"rows", 1},
          {"layout", "tp=2 dp=8"},
          {"layout-defaults", true},
          {"timeline", "text"},
          {"sequences", "128,256"},
          {"ramp", "8,8,100"},
          {"estimate", true},
          {"emit", "recipe"},
          {"phases", "1:1,2"},
          {"criteria", "ratio=1..1000 heads=64"},
          {"at-most", true},
          {"launch-blocking", true},
          {"accumulate", "fp32"}};
}

// The base question in a form that the option can change.
nlohmann::json BaseFor(const nlohmann::json& question, const std::string& option) {
  nlohmann::json base = question;
  if (option == "nodes" && base.contains("gpus")) {
    base["nodes"] = 2;
    base.erase("gpus");
  }
  if (std::set<std::string>{"deadline", "allocation", "estimate"}.contains(option)) {
    base["tokens"] = 1e12;
  }
  if (option == "at-most" && base.contains("gpus")) {
    base["gpus"] = 24;  // data ranks that do not divide the batch
  }
  return base;
}

// What a person or a program sees of an answer.
nlohmann::json Seen(const nlohmann::json& answer) {
  return {answer.value("error", ""), answer.value("text", ""), answer.value("json", nlohmann::json()),
          answer.value("files", nlohmann::json())};
}

TEST(PlanOptions, EachIsReadOrRefusedByEveryQuestion) {
  for (const BaseQuestion& question : Questions()) {
    for (const Given& option : Options()) {
      const nlohmann::json base = BaseFor(question.options, option.name);
      nlohmann::json changed = base;
      changed[option.name] = option.value;
      const nlohmann::json before = AnswerTo(base);
      const nlohmann::json after = AnswerTo(changed);
      if (option.name != std::string("at-most")) {
        ASSERT_FALSE(before.contains("error")) << question.name << ": " << before.dump();
      }
      const std::string said = after.value("error", "");
      const bool named = said.find(option.name) != std::string::npos;
      const bool refused = named || (!said.empty() && option.name == std::string("headroom"));
      EXPECT_TRUE(refused || said.empty() || said != before.value("error", ""))
          << question.name << " with " << option.name << ": " << said;
      EXPECT_NE(Seen(before), Seen(after)) << question.name << " does not read " << option.name;
    }
  }
}

// Keys that are held are held whatever is looked for.
TEST(PlanOptions, HeldKeysHoldInEverySearch) {
  for (const char* const asked : {"max-size", "search-shape", "max-sequence"}) {
    const std::pair<const char*, nlohmann::json> cases[] = {
        {"mbs=2", 2}, {"partition=cost", "cost"}, {"sp=true", true}, {"offload_activations=true", true}};
    const char* const keys[] = {"micro_batch", "partition", "sequence_parallel", "offload_activations"};
    for (std::size_t i = 0; i < 4; ++i) {
      nlohmann::json options{{"gpus", 8},
                             {"global-batch", 16},
                             {"fix", std::string("tp=2 pp=2 zero=1 recompute=light ") + cases[i].first}};
      options[asked] = asked == std::string("search-shape") ? nlohmann::json("30M") : nlohmann::json(true);
      const nlohmann::json answer = AnswerTo(options);
      ASSERT_FALSE(answer.contains("error")) << asked << " " << cases[i].first << answer["error"];
      const nlohmann::json& found = answer["json"].is_array() ? answer["json"][0] : answer["json"];
      EXPECT_EQ(found["best"][keys[i]], cases[i].second) << asked << " " << cases[i].first;
    }
    nlohmann::json options{{"gpus", 8}, {"global-batch", 16}, {"fix", "tp=1 pp=1 zero=1"}, {"ramp", "4,4,100"}};
    options[asked] = asked == std::string("search-shape") ? nlohmann::json("30M") : nlohmann::json(true);
    const nlohmann::json ramped = AnswerTo(options);
    if (asked == std::string("search-shape")) {
      EXPECT_TRUE(ramped["json"].empty()) << "8 data ranks do not divide 4";
    } else {
      EXPECT_THAT(ramped["error"].get<std::string>(), HasSubstr("ramp")) << asked;
    }
  }
}

TEST(PlanOptions, WhatIsKnownOfAnotherProgramIsPriced) {
  const Machine machine("jean-zay-a100", "hf-fsdp-2023");
  const ModelConfig model = SmallGpt();
  const auto answer = [&](PlanOptions options) {
    options.gpus = 16;
    options.global_batch = 64;
    options.layout = "tp=1 pp=1 dp=16 mbs=1 zero=0 recompute=none";
    return AnswerPlan({.cluster = machine.cluster, .stack = machine.stack, .model = model, .compared = {}}, options);
  };
  const PlanAnswer adam = answer({});
  const PlanAnswer adafactor = answer({.optimizer = "adafactor"});
  EXPECT_LT(adafactor.json["peak_gib"], adam.json["peak_gib"]);
  EXPECT_NE(answer({.power_sgd_rank = 4}).json["seconds"], adam.json["seconds"]);
  EXPECT_THAT(MessageOf([&] { answer({.optimizer = "lion"}); }), HasSubstr("only memory and time with adamw and"));
  const Machine other("dgx-h100", "megatron-core-2024");
  EXPECT_THAT(MessageOf([&] {
                AnswerPlan({.cluster = other.cluster, .stack = other.stack, .model = model, .compared = {}},
                           {.gpus = 8, .power_sgd_rank = 4, .global_batch = 64});
              }),
              HasSubstr("no run of stack 'megatron-core-2024' that compresses gradients is known"));
}

TEST(Emit, IsRefusedWhereTheTrainerCannotRun) {
  const ModelConfig model = SmallGpt();
  const auto emit = [&](const std::string& cluster, const std::string& stack) {
    const Machine machine(cluster, stack);
    return AnswerPlan({.cluster = machine.cluster, .stack = machine.stack, .model = model, .compared = {}},
                      {.gpus = 8, .global_batch = 64, .emit = "recipe,sbatch"});
  };
  EXPECT_THAT(MessageOf([&] { emit("jean-zay-v100-32g", "trireme"); }), HasSubstr("compute capability 8.0"));
  EXPECT_THAT(MessageOf([&] { emit("adastra", "trireme"); }), HasSubstr("none for hip"));
  EXPECT_THAT(MessageOf([&] { emit("aurora", "trireme"); }), HasSubstr("none for level-zero"));
  const PlanAnswer foreign = emit("dgx-h100", "megatron-core-2024");
  ASSERT_EQ(foreign.files.size(), 2U);
  for (const PlanAnswer::File& file : foreign.files) {
    EXPECT_THAT(file.text, HasSubstr("Priced was the program of stack megatron-core-2024"));
  }
  for (const PlanAnswer::File& file : emit("dgx-h100", "trireme").files) {
    EXPECT_THAT(file.text, testing::Not(HasSubstr("Priced was")));
  }
}

}  // namespace
}  // namespace trireme
