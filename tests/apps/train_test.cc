#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

#include "apps/program.h"
#include "base/json_text.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

std::int64_t StepsIn(const std::string& metrics) {
  std::int64_t steps = 0;
  for (const std::string& line : Lines(metrics)) {
    steps += ParseJson(line).contains("loss") ? 1 : 0;
  }
  return steps;
}

std::size_t Count(const std::string& text, const std::string& pattern) {
  std::size_t count = 0;
  const std::regex expression(pattern);
  for (const std::string& line : Lines(text)) {
    count += std::regex_search(line, expression) ? 1 : 0;
  }
  return count;
}

TEST(DryRun, PrintsEveryKeyWithItsOriginAndWritesNothing) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  const Outcome outcome =
      place.Run({"train", "recipe.toml", "--dry-run", "--set", "layout.zero=2", "--steps", "7", "--run", "run"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(Count(outcome.out, R"(^layout\.tensor += 2 +# recipe.*line 9)"), 1U) << outcome.out;
  EXPECT_EQ(Count(outcome.out, R"(^layout\.zero += 2 +# --set)"), 1U);
  EXPECT_EQ(Count(outcome.out, R"(^train\.steps += 7 +# --set)"), 1U);
  EXPECT_EQ(Count(outcome.out, R"(^optimizer\.clip += 1\.0 +# default)"), 1U);
  EXPECT_FALSE(place.Has("run"));
}

TEST(Train, ARunWithoutRoomForTheCopyOfItsStateIsRefusedBeforeAnythingIsWritten) {
  const Workplace place;
  place.Write("recipe.toml", LargeRecipe(1));
  const Outcome outcome = place.Run({"train", "recipe.toml", "--run", "run"});
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("for the copy that checkpoints are written from"));
  EXPECT_FALSE(place.Has("run"));
}

// Slices of one track nest or follow each other; every arrow has two ends; measured and predicted are two processes.
TEST(Train, ATraceHasEveryRankItsMessagesAndThePrediction) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  const Outcome outcome = place.Run({"train", "recipe.toml", "--ranks", "8", "--run", "run", "--trace", "2-3"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto trace = ParseJson(place.Read("run/trace.json"));
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> tracks;
  std::vector<std::string> processes;
  std::map<int, int> flows;
  std::size_t ranks = 0;
  for (const auto& event : trace["traceEvents"]) {
    const std::string phase = event["ph"];
    if (phase == "X") {
      tracks[{event["pid"], event["tid"]}].push_back(
          {event["ts"], event["ts"].get<double>() + event["dur"].get<double>()});
    } else if (phase == "s" || phase == "f") {
      flows[event["id"]] += phase == "s" ? 1 : 10;
    } else if (event["name"] == "process_name") {
      processes.push_back(event["args"]["name"]);
    } else if (event["name"] == "thread_name" && event["pid"] == 1) {
      ranks += event["args"]["name"].get<std::string>().find(", stage ") != std::string::npos ? 1 : 0;
    }
  }
  EXPECT_THAT(processes, testing::ElementsAre("measured, steps 2 to 3", "predicted"));
  EXPECT_EQ(ranks, 8U);
  EXPECT_FALSE(flows.empty());
  for (const auto& [id, ends] : flows) {
    EXPECT_EQ(ends, 11) << id;
  }
  for (auto& [track, slices] : tracks) {
    std::sort(slices.begin(), slices.end());
    for (std::size_t i = 1; i < slices.size(); ++i) {
      EXPECT_GE(slices[i].first, slices[i - 1].second - 0.01) << track.second;
    }
  }
  const Outcome bad = place.Run({"train", "recipe.toml", "--run", "other", "--trace", "3-2"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_FALSE(place.Has("other"));
}

TEST(Train, DrillsNeedTheRunsFolder) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  const Outcome bad = place.Run({"train", "recipe.toml", "--ranks", "8", "--run", "other", "--no-checkpoint",
                                 "--inject", "rank=1,step=1,what=throw"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_FALSE(place.Has("other"));
}

TEST(Train, NamesItsEnginesInItsFolderWithoutCheckpointsToo) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  ASSERT_EQ(place.Run({"train", "recipe.toml", "--ranks", "8", "--run", "run", "--steps", "1", "--no-checkpoint"}).code,
            0);
  EXPECT_EQ(place.Read("run/device_choices.txt"), "engines fp32=packed bf16=packed\n");
  EXPECT_FALSE(place.Has("run/checkpoints"));
}

// What a run leaves beside its steps, and what status says of it.
TEST(Train, LeavesEventsMemoryAndCausesForStatus) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  ASSERT_EQ(place.Run({"train", "recipe.toml", "--ranks", "8", "--run", "run", "--set", "log.tensorboard=true"}).code,
            0);
  EXPECT_THAT(place.Read("run/events.jsonl"), HasSubstr(R"("kind":"start","text":"started")"));
  EXPECT_THAT(place.Read("run/events.jsonl"), HasSubstr(R"("kind":"save","text":"checkpoint of step 4")"));
  const auto memory = ParseJson(place.Read("run/memory.json"));
  EXPECT_EQ(memory["measured"].size(), 8U);
  EXPECT_EQ(memory["measured"][7]["kinds"], memory["planned"][1]["kinds"]);
  EXPECT_TRUE(ParseJson(Lines(place.Read("run/metrics.jsonl")).at(0)).contains("causes"));
  EXPECT_TRUE(place.Has("run/tensorboard"));
  const Outcome status = place.Run({"status", "run"});
  ASSERT_EQ(status.code, 0) << status.err;
  EXPECT_THAT(status.out, HasSubstr("finished"));
  EXPECT_THAT(status.out, HasSubstr("step 4 of 4"));
  EXPECT_THAT(status.out, HasSubstr("checkpoint of step 4"));
  EXPECT_EQ(place.Run({"status", "nothing"}).code, 2);
  const Outcome of_folder = place.Run({"status", ".", "--json"});
  ASSERT_EQ(of_folder.code, 0) << of_folder.err;
  const auto facts = ParseJson(Lines(of_folder.out).at(0));
  EXPECT_EQ(facts["name"], "run");
  EXPECT_EQ(facts["state"], "finished");
  EXPECT_EQ(facts["step"], 4);
  EXPECT_GT(facts["seconds"].get<double>(), 0);
  EXPECT_EQ(place.Run({"compare", "run", "run"}).code, 0);
}

TEST(Train, OnEightRanksLeavesARunThatCanGoOn) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  const Outcome first = place.Run({"train", "recipe.toml", "--ranks", "8", "--run", "run"});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(Count(first.out, R"(^step [1-4]/4  loss \S+  norm \S+  lr \S+  \S+ s  \S+ tok/s)"), 4U) << first.out;
  EXPECT_EQ(Count(Unwrapped(first.out),
                  R"(^memory    on ranks [0-7]-[0-7] .*: weights .*gradients .*optimizer .*activations )"),
            2U);
  EXPECT_EQ(Count(first.out, R"(^validation loss at step [24] )"), 2U);
  const std::string metrics = place.Read("run/metrics.jsonl");
  EXPECT_EQ(StepsIn(metrics), 4);
  const auto row = ParseJson(Lines(metrics).at(0));
  for (const char* key :
       {"step", "loss", "grad_norm", "learning_rate", "global_batch", "consumed_samples", "consumed_tokens", "seconds",
        "tokens_per_second", "tflops", "model_tflops", "skipped", "memory_bytes"}) {
    EXPECT_TRUE(row.contains(key)) << key;
  }
  EXPECT_EQ(row["consumed_tokens"], 8 * 16);

  const Outcome again = place.Run({"train", "run/run.toml", "--dry-run"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(Count(again.out, R"(^layout\.pipeline += 2 )"), 1U);

  // Another layout goes on from the same checkpoint.
  const Outcome second = place.Run({"train", "recipe.toml", "--run", "run", "--steps", "6", "--ranks", "2", "--set",
                                    "layout.pipeline=1", "--set", "layout.data=1"});
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.out, HasSubstr("resumed after step 4"));
  EXPECT_THAT(second.out, HasSubstr("layout.pipeline: 2 -> 1"));
  EXPECT_EQ(StepsIn(place.Read("run/metrics.jsonl")), 6);
}

TEST(Train, AResumeThatDropsTrainedStateIsRefusedBeforeAnythingIsWritten) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  ASSERT_EQ(place.Run({"train", "recipe.toml", "--run", "run", "--steps", "2"}).code, 0);
  const std::string before = place.Read("run/run.toml");
  std::string smaller = TinyRecipe();
  smaller.replace(smaller.find("heads = 4"), 9, "heads = 2");
  place.Write("smaller.toml", smaller);
  const Outcome refused = place.Run({"train", "smaller.toml", "--run", "run", "--steps", "3"});
  EXPECT_EQ(refused.code, 2) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("would drop trained state: heads (the model has 2 heads"));
  EXPECT_EQ(place.Read("run/run.toml"), before);
  EXPECT_EQ(place.Run({"checkpoint", "verify", "run", "recipe.toml"}).code, 0);
  const Outcome verified = place.Run({"checkpoint", "verify", "run", "smaller.toml"});
  EXPECT_EQ(verified.code, 1) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("a resume with 'smaller.toml' drops heads ("));
  const Outcome dropped = place.Run({"train", "smaller.toml", "--run", "run", "--steps", "3", "--drop-state", "heads"});
  EXPECT_EQ(dropped.code, 0) << dropped.err;
  EXPECT_THAT(dropped.out, HasSubstr("dropped, as --drop-state says: heads"));
  EXPECT_EQ(place.Run({"train", "recipe.toml", "--run", "other", "--drop-state", "head"}).code, 2);
}

TEST(Train, ThreadsSpinBrieflyUnlessTheEnvironmentSaysOtherwise) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  const auto environment = [&](const std::string& folder) {
    const pid_t program = place.Start({"train", "recipe.toml", "--run", folder, "--steps", "1000000"});
    while (!place.Has(folder + "/metrics.jsonl")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::ifstream file(fmt::format("/proc/{}/environ", program), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    place.End(program, SIGKILL);
    return text;
  };
  const char* const before = std::getenv("OMP_WAIT_POLICY");
  const std::string policy = before == nullptr ? "passive" : before;
  unsetenv("OMP_WAIT_POLICY");
  unsetenv("GOMP_SPINCOUNT");
  EXPECT_THAT(environment("brief"), HasSubstr("GOMP_SPINCOUNT=3000"));
  setenv("OMP_WAIT_POLICY", policy.c_str(), 1);
  EXPECT_THAT(environment("told"), Not(HasSubstr("GOMP_SPINCOUNT")));
}

// Tokens that a batch does not hold have rows of zeros in an untied table, however it is cut and padded.
TEST(Train, ThreadsThatWereWorkedOutAreNamedAndAChangeIsTold) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  const Outcome first = place.Run({"train", "recipe.toml", "--run", "run", "--steps", "2"});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr(", 1 thread a rank"));
  EXPECT_EQ(Count(place.Read("run/run.toml"), "^threads = 1$"), 1U);
  setenv("OMP_NUM_THREADS", "2", 1);
  const Outcome second = place.Run({"train", "recipe.toml", "--run", "run", "--steps", "3"});
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.out, HasSubstr("changed since the checkpoint: train.threads: 1 -> 2"));
  EXPECT_EQ(Count(place.Read("run/run.toml"), "^threads = 2$"), 1U);
}

TEST(Train, ZerosOfTheGradientAreCountedAlikeUnderAnyLayout) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  const auto zeros = [&](const std::vector<std::string>& layout) {
    std::vector<std::string> train = {"train", "recipe.toml", "--run", "run" + std::to_string(layout.size())};
    for (const char* setting : {"model.family=llama", "model.vocabulary=61", "train.count_zeros=true"}) {
      train.insert(train.end(), {"--set", setting});
    }
    for (const std::string& setting : layout) {
      train.insert(train.end(), {"--set", setting});
    }
    train.insert(train.end(), {"--steps", "1"});
    const Outcome outcome = place.Run(train);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const auto row = ParseJson(Lines(place.Read(train[3] + "/metrics.jsonl")).at(0));
    const auto count = row.at("num_zeros").get<std::int64_t>();
    EXPECT_EQ(Count(outcome.out, fmt::format("  {} zeros", count)), 1U) << outcome.out;
    return count;
  };
  const std::int64_t one = zeros({"layout.tensor=1", "layout.pipeline=1", "layout.data=1"});
  EXPECT_EQ(one % 32, 0) << "whole rows of a table of width 32";
  EXPECT_GT(one, 0);
  EXPECT_EQ(zeros({}), one);
  EXPECT_EQ(zeros({"layout.zero=3", "layout.sequence_parallel=true"}), one);
}

TEST(Train, SigtermSavesAndEndsWithCodeThree) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  const std::vector<std::string> arguments = {"train", "recipe.toml", "--run", "run", "--steps", "1000000"};
  const pid_t program = place.Start(arguments);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (place.Read("run/metrics.jsonl").find('\n') == std::string::npos && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const Outcome outcome = place.End(program, SIGTERM);
  EXPECT_EQ(outcome.code, 3) << outcome.out << outcome.err;
  const std::int64_t steps = StepsIn(place.Read("run/metrics.jsonl"));
  EXPECT_GE(steps, 1);
  const Outcome inspect = place.Run({"checkpoint", "inspect", "run", "--json"});
  ASSERT_EQ(inspect.code, 0) << inspect.err;
  EXPECT_EQ(ParseJson(inspect.out).at("step"), steps);
}

// Weights saved under two layouts: without a learning rate training leaves them as they were drawn.
TEST(Checkpoint, TheDigestDoesNotDependOnTheLayout) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  std::vector<std::string> digests;
  const std::vector<std::vector<std::string>> layouts = {
      {},
      {"--set", "layout.tensor=1", "--set", "layout.pipeline=1", "--set", "layout.zero=3"},
  };
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const std::string run = "run" + std::to_string(i);
    std::vector<std::string> train = {"train",   "recipe.toml", "--run", run,
                                      "--steps", "1",           "--set", "optimizer.learning_rate=0"};
    train.insert(train.end(), layouts[i].begin(), layouts[i].end());
    ASSERT_EQ(place.Run(train).code, 0);
    ASSERT_EQ(place.Run({"checkpoint", "convert", run, run + "-weights", "--weights-only", "--shards", "3"}).code, 0);
    const Outcome inspect = place.Run({"checkpoint", "inspect", run + "-weights", "--json"});
    ASSERT_EQ(inspect.code, 0) << inspect.err;
    digests.push_back(ParseJson(inspect.out).at("digest"));
  }
  EXPECT_EQ(digests[0], digests[1]);
  EXPECT_THAT(place.Run({"checkpoint", "diff", "run0-weights", "run1-weights"}).out,
              testing::HasSubstr("equal bit for bit"));
  EXPECT_EQ(place.Run({"checkpoint", "diff", "run0", "run1"}).code, 1);
}

// Links that another planted in a run's folder: their targets stay as they are.
TEST(TrainProgram, ARunFolderIsWrittenWithoutFollowingLinks) {
  const Workplace place;
  place.Write("tiny.toml", TinyRecipe());
  std::filesystem::create_directories(place / "run");
  for (const char* name : {"run.toml", "metrics.jsonl"}) {
    place.Write(std::string("target-") + name, "precious\n");
    std::filesystem::create_symlink(place / (std::string("target-") + name), place / (std::string("run/") + name));
  }
  place.Run({"train", "tiny.toml", "--ranks", "8", "--steps", "1", "--run", "run"});
  EXPECT_EQ(place.Read("target-run.toml"), "precious\n");
  EXPECT_EQ(place.Read("target-metrics.jsonl"), "precious\n");
}

TEST(TrainProgram, LinkedFoldersOfARunAreRefusedButForCheckpoints) {
  const Workplace place;
  place.Write("tiny.toml", TinyRecipe());
  std::filesystem::create_directories(place / "run");
  std::filesystem::create_directories(place / "elsewhere");
  const std::vector<std::string> train = {"train",   "tiny.toml", "--ranks", "8",
                                          "--steps", "1",         "--set",   "log.dump_steps=1",
                                          "--trace", "1",         "--set",   "log.tensorboard=true",
                                          "--run",   "linked"};
  std::filesystem::create_directory_symlink("run", place / "linked");
  for (const char* name : {"flight", "trace", "dump", "tensorboard"}) {
    const std::string link = place / (std::string("run/") + name);
    std::filesystem::create_directory_symlink("../elsewhere", link);
    const Outcome outcome = place.Run(train);
    EXPECT_EQ(outcome.code, 2) << name;
    EXPECT_THAT(outcome.err, testing::HasSubstr(std::string(name) + "' is a symbolic link"));
    EXPECT_TRUE(std::filesystem::is_empty(place / "elsewhere")) << name;
    std::filesystem::remove(link);
  }
  std::filesystem::create_directory_symlink("../elsewhere", place / "run/checkpoints");
  const Outcome outcome = place.Run(train);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(place.Has("elsewhere/step-000001"));
  EXPECT_TRUE(place.Has("run/trace"));
}

TEST(TrainProgram, AnExportLeavesFoldersOfOthersAlone) {
  const Workplace place;
  place.Write("tiny.toml", TinyRecipe());
  ASSERT_EQ(place.Run({"train", "tiny.toml", "--ranks", "8", "--steps", "1", "--run", "run"}).code, 0);
  std::filesystem::create_directories(place / "out.tmp");
  place.Write("out.tmp/precious", "yes");
  const Outcome exported = place.Run({"checkpoint", "export", "run", "out"});
  EXPECT_EQ(exported.code, 0) << exported.err;
  EXPECT_EQ(place.Read("out.tmp/precious"), "yes");
  EXPECT_TRUE(place.Has("out/config.json"));
}

// A run that came from elsewhere could name any file of this machine by a link.
TEST(TrainProgram, AnExportCopiesNothingThroughLinks) {
  const Workplace place;
  place.Write("tiny.toml", TinyRecipe());
  ASSERT_EQ(place.Run({"train", "tiny.toml", "--ranks", "8", "--steps", "1", "--run", "run"}).code, 0);
  place.Write("secret", "{}");
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    std::filesystem::create_symlink(place / "secret", place / (std::string("run/") + name));
    const Outcome exported = place.Run({"checkpoint", "export", "run", "out"});
    EXPECT_EQ(exported.code, 2) << exported.out;
    EXPECT_THAT(exported.err, testing::HasSubstr(std::string(name) + "' is a symbolic link"));
    EXPECT_FALSE(place.Has("out"));
    std::filesystem::remove(place / (std::string("run/") + name));
    place.Write("run/tokenizer.json", "{}");
  }
}

}  // namespace
}  // namespace trireme
