// What a run has learnt must survive a stop: trained tensors, running means, steps to pass over, tokens consumed. A
// step without an update leaves nothing behind.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/read/checkpoint_folder.h"
#include "checkpoint/read/dropped_state.h"
#include "checkpoint/tools/reports.h"
#include "message_of.h"
#include "operate/watched_run.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using test::MessageOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

using Settings = std::vector<std::string>;

Settings With(Settings keys, const Settings& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

class KeptState : public testing::Test {
 protected:
  std::string Folder(const char* name) const { return scratch_ / name; }
  // A copy of a run as it lies there.
  std::string Copy(const std::string& run, const char* name) const {
    std::filesystem::remove_all(Folder(name));
    std::filesystem::copy(run, Folder(name), std::filesystem::copy_options::recursive);
    return Folder(name);
  }
  static std::int64_t NewestStep(const std::string& run) { return ListCheckpoints(run + "/checkpoints").front().step; }

 private:
  ScratchDirectory scratch_;
};

// --- trained tensors ---------------------------------------------------------------------------------------------

const Settings kLlama = {"model.family=llama", "model.layers=4", "model.heads=4",  "model.hidden=16",
                         "batch.global=2",     "train.steps=3",  "train.threads=1"};

struct Drop {
  const char* what;
  Settings before;
  Settings after;
  const char* part;
};

const std::vector<Drop>& Drops() {
  static const std::vector<Drop> drops = {
      {"layers", {}, {"model.layers=2"}, "layers"},
      {"tied output", {"model.tie_embeddings=false"}, {"model.tie_embeddings=true"}, "output"},
      {"adapters", {"lora.rank=2"}, {"lora.rank=2", "lora.targets=attention.qkv"}, "adapters"},
      {"heads", {}, {"model.heads=2"}, "heads"},
      {"lion", {}, {"optimizer.name=lion"}, "optimizer"},
      {"sgd", {}, {"optimizer.name=sgd"}, "optimizer"},
      {"muon", {}, {"optimizer.name=muon"}, "optimizer"},
      {"adamw after muon", {"optimizer.name=muon"}, {"optimizer.name=adamw"}, "optimizer"},
      {"lion after sgd", {"optimizer.name=sgd", "optimizer.momentum=0.9"}, {"optimizer.name=lion"}, "optimizer"},
      {"momentum",
       {"optimizer.name=sgd", "optimizer.momentum=0.9"},
       {"optimizer.name=sgd", "optimizer.momentum=0"},
       "optimizer"}};
  return drops;
}

TEST_F(KeptState, AResumeThatWouldDropTrainedStateIsRefusedUnlessItIsNamed) {
  for (const Drop& drop : Drops()) {
    SCOPED_TRACE(drop.what);
    const std::string run = Folder("run");
    std::filesystem::remove_all(run);
    RunOn(TinyRun(With(kLlama, drop.before)), run);
    const RunConfig changed = TinyRun(With(With(kLlama, drop.after), {"train.steps=5"}));
    const std::string refusal = MessageOf([&] { RunOn(changed, run); });
    EXPECT_THAT(refusal, HasSubstr("would drop trained state"));
    EXPECT_THAT(refusal, HasSubstr(fmt::format("--drop-state {}", drop.part)));
    EXPECT_EQ(NewestStep(run), 3);
    // Another part's name permits nothing.
    const std::string other = std::string(drop.part) == "parameters" ? "layers" : "parameters";
    EXPECT_NE(MessageOf([&] { RunOn(changed, run, {.drop_state = {other}}); }), "");

    Report report = VerifyCheckpoint(run);
    EXPECT_EQ(report.status, 0);
    AddDroppedState(run, "changed.toml", changed, report);
    EXPECT_EQ(report.status, 1);
    EXPECT_THAT(report.text, HasSubstr(fmt::format("drops {} (", drop.part)));

    const Watched resumed = RunOn(changed, run, {.drop_state = {drop.part}});
    EXPECT_THAT(resumed.notes, Contains(HasSubstr(fmt::format("dropped, as --drop-state says: {}", drop.part))));
    EXPECT_EQ(NewestStep(run), 5);
    const Manifest saved = ReadManifest(ListCheckpoints(run + "/checkpoints").front().path);
    EXPECT_EQ(saved.state.updates, std::string(drop.part) == "optimizer" ? 2 : 5);
    // What was dropped is gone: the next resume needs no permission.
    EXPECT_EQ(MessageOf([&] { RunOn(changed, run); }), "");
  }
}

TEST_F(KeptState, ChangesThatLoseNothingAreNotAskedFor) {
  const std::string run = Folder("run");
  RunOn(TinyRun(kLlama), run);
  const std::vector<Settings> changes = {{"optimizer.learning_rate=1e-4"},
                                         {"batch.global=4"},
                                         {"model.sequence=8"},
                                         {"layout.tensor=2"},
                                         {"layout.pipeline=2"},
                                         {"layout.data=2", "layout.zero=3"},
                                         {"layout.offload=full"},
                                         {"optimizer.moments=bf16"},
                                         {"layout.data=2", "optimizer.powersgd.rank=1"},
                                         {"layout.data=2", "layout.reduce=int8"},
                                         {"train.dtype=bf16"}};
  for (const Settings& change : changes) {
    SCOPED_TRACE(change.back());
    const RunConfig changed = TinyRun(With(With(kLlama, change), {"train.steps=4"}));
    const Watched resumed = RunOn(changed, Copy(run, "changed"));
    EXPECT_EQ(resumed.steps.size(), 1U);
    Report report{.status = 0, .text = "", .json = "{}"};
    AddDroppedState(run, "changed.toml", changed, report);
    EXPECT_EQ(report.status, 0);
    EXPECT_THAT(report.text, HasSubstr("drops nothing"));
  }
}

TEST_F(KeptState, WeightsThatAreNotThereOrHaveOtherShapesAreNoMatterOfPermission) {
  const std::string run = Folder("run");
  RunOn(TinyRun(kLlama), run);
  const std::set<std::string> all = {"layers", "heads", "output", "adapters", "parameters", "optimizer"};
  for (const char* change : {"model.layers=6", "model.hidden=32", "model.vocabulary=32", "lora.rank=2"}) {
    const RunConfig changed = TinyRun(With(kLlama, {change}));
    EXPECT_THAT(MessageOf([&] { RunOn(changed, run, {.drop_state = all}); }), HasSubstr("model.from")) << change;
  }
}

TEST_F(KeptState, EveryStoredTensorIsWantedByItsOwnRecipe) {
  for (const char* family : {"gpt2", "llama", "gemma3"}) {
    for (const char* optimizer : {"adamw", "lion", "sgd", "muon", "adafactor"}) {
      for (const char* adapters : {"lora.rank=0", "lora.rank=2"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", family, optimizer, adapters));
        const std::string run = Folder("run");
        std::filesystem::remove_all(run);
        const RunConfig config =
            TinyRun({fmt::format("model.family={}", family), fmt::format("optimizer.name={}", optimizer), adapters,
                     "batch.global=2", "train.steps=1"});
        RunOn(config, run);
        const std::string newest = ListCheckpoints(run + "/checkpoints").front().path;
        EXPECT_EQ(ReadManifest(newest).tensors, StateTensors(config));
        EXPECT_TRUE(FindDroppedState(ReadManifest(newest), newest, config).empty());
      }
    }
  }
}

TEST(DropState, NamesThatDoNotExistAreRefused) {
  EXPECT_EQ(ParseDropState("layers,optimizer"), (std::set<std::string>{"layers", "optimizer"}));
  EXPECT_TRUE(ParseDropState("").empty());
  EXPECT_THAT(MessageOf([] { ParseDropState("layer"); }), HasSubstr("known: layers, heads"));
  EXPECT_NE(MessageOf([] { ParseDropState("layers,,heads"); }), "");
}

// --- damage ------------------------------------------------------------------------------------------------------

TEST_F(KeptState, DamageThatAnotherRankFindsIsToldByTheFirst) {
  const Settings keys = {"batch.global=2", "layout.data=2", "layout.zero=1", "checkpoint.every=2", "checkpoint.keep=3"};
  const std::string run = Folder("run");
  RunOn(TinyRun(With(keys, {"train.steps=4"})), run);
  const std::string shard = ListCheckpoints(run + "/checkpoints").front().path + "/shard-00001.safetensors";
  std::string bytes = ReadBytes(shard);
  bytes[bytes.size() - 3] ^= 16;
  WriteBytes(shard, bytes);
  const Watched rest = RunOn(TinyRun(With(keys, {"train.steps=5"})), run);
  EXPECT_EQ(rest.steps.front().step, 3);
  EXPECT_THAT(rest.notes, Contains(testing::AllOf(HasSubstr("checkpoint of step 4 is not used"),
                                                  HasSubstr("step-000004/shard-00001.safetensors"))));
}

// --- spikes ------------------------------------------------------------------------------------------------------

constexpr std::int64_t kBadStep = 25;

// Two samples a step: a sequence that is soon learnt, and one step of another one.
const Session kOneBadBatch = {.change = [](std::int64_t index, Sample& sample) {
  const bool bad = index / 2 + 1 == kBadStep;
  for (std::size_t i = 0; i < sample.tokens.size(); ++i) {
    sample.tokens[i] = static_cast<std::int32_t>(bad ? 8 + (i * 5 + static_cast<std::size_t>(index)) % 8 : 1 + i);
  }
}};

Session StoppedAfter(std::int64_t steps) {
  Session session = kOneBadBatch;
  session.stop_after = steps;
  return session;
}

const Settings kWatchful = {"batch.global=2",       "train.steps=32",
                            "train.loss_spike=1.3", "optimizer.learning_rate=2e-2",
                            "checkpoint.every=10",  "train.threads=1"};

TEST_F(KeptState, ARunThatIsResumedNearABadBatchSkipsItAsTheUninterruptedOne) {
  const RunConfig config = TinyRun(With(kWatchful, {"train.on_spike=skip"}));
  const Watched whole = RunOn(config, Folder("whole"), kOneBadBatch);
  ASSERT_THAT(whole.notes, Contains(HasSubstr("step 25: no update")));
  for (const std::int64_t stop : {kBadStep - 1, kBadStep - 5}) {
    const std::string run = Folder("resumed");
    std::filesystem::remove_all(run);
    RunOn(config, run, StoppedAfter(stop));
    const Watched rest = RunOn(config, run, kOneBadBatch);
    EXPECT_THAT(rest.notes, Contains(HasSubstr("step 25: no update")));
    EXPECT_THAT(rest.notes, Not(Contains(HasSubstr("no running means"))));
    EXPECT_EQ(DigestIn(run), DigestIn(Folder("whole")));
  }
}

TEST_F(KeptState, AStepThatRollbackPassesOverStaysSoAfterAResume) {
  const RunConfig config = TinyRun(With(kWatchful, {"train.on_spike=rollback"}));
  const Watched whole = RunOn(config, Folder("whole"), kOneBadBatch);
  ASSERT_THAT(whole.notes, Contains(HasSubstr("went back to step 20")));
  // 25 steps until the spike, then step 21 and 22 again.
  RunOn(config, Folder("run"), StoppedAfter(27));
  EXPECT_EQ(NewestStep(Folder("run")), 22);
  const Watched rest = RunOn(config, Folder("run"), kOneBadBatch);
  EXPECT_THAT(rest.notes, Not(Contains(HasSubstr("spike"))));
  EXPECT_EQ(rest.steps.front().step, 23);
  EXPECT_EQ(DigestIn(Folder("run")), DigestIn(Folder("whole")));
}

TEST_F(KeptState, ACheckpointWithoutMeansLoadsAndSaysSoOnce) {
  const RunConfig config = TinyRun(With(kWatchful, {"train.on_spike=rollback"}));
  RunOn(config, Folder("run"), StoppedAfter(5));
  EditManifest(Folder("run"), [](std::string& text) {
    const std::size_t name = text.find("\"running_means\"");
    ASSERT_NE(name, std::string::npos);
    text.replace(name, 15, "\"another_note_\"");
  });
  const Watched rest = RunOn(config, Folder("run"), kOneBadBatch);
  EXPECT_EQ(std::count_if(rest.notes.begin(), rest.notes.end(),
                          [](const std::string& note) { return note.find("no running means") != std::string::npos; }),
            1);
  EXPECT_THAT(rest.notes, Contains(HasSubstr("went back to step 20")));
}

TEST_F(KeptState, DamagedNotesAreNamed) {
  const RunConfig config = TinyRun(kWatchful);
  RunOn(config, Folder("run"), StoppedAfter(5));
  EditManifest(Folder("run"), [](std::string& text) {
    const std::size_t name = text.find("\"running_means\": \"");
    ASSERT_NE(name, std::string::npos);
    text.insert(name + 18, "zz ");
  });
  EXPECT_THAT(MessageOf([&] { RunOn(config, Folder("run")); }), HasSubstr("running_means = 'zz "));
}

// --- steps without an update -------------------------------------------------------------------------------------

TEST_F(KeptState, AStepWithoutAnUpdateLeavesNothingInCompressedGradients) {
  const Settings compressed = With(kWatchful, {"layout.data=2", "optimizer.powersgd.rank=1"});
  const RunConfig told = TinyRun(With(compressed, {"train.skip_steps=25"}));
  RunOn(told, Folder("told"), kOneBadBatch);

  const RunConfig skip = TinyRun(With(compressed, {"train.on_spike=skip"}));
  const Watched skipped = RunOn(skip, Folder("skip"), kOneBadBatch);
  ASSERT_THAT(skipped.notes, Contains(HasSubstr("step 25: no update")));
  EXPECT_EQ(DigestIn(Folder("skip")), DigestIn(Folder("told")));

  // A fresh process starts from the checkpoint that the other went back to.
  RunOn(told, Folder("fresh"), StoppedAfter(20));
  RunOn(told, Folder("fresh"), kOneBadBatch);
  const RunConfig back = TinyRun(With(compressed, {"train.on_spike=rollback"}));
  const Watched rolled = RunOn(back, Folder("back"), kOneBadBatch);
  ASSERT_THAT(rolled.notes, Contains(HasSubstr("went back to step 20")));
  EXPECT_EQ(DigestIn(Folder("back")), DigestIn(Folder("fresh")));
}

// Step 2 of the run has no target.
const Session kOneBatchWithoutTargets = {.change = [](std::int64_t index, Sample& sample) {
  sample.weights.assign(sample.tokens.size() - 1, index / 2 + 1 == 2 ? 0.0F : 1.0F);
}};

TEST_F(KeptState, ABatchWithoutTargetsIsASkippedStepInEveryPrecision) {
  for (const char* dtype : {"fp32", "bf16", "fp16"}) {
    for (const char* then : {"train.on_nonfinite=skip", "train.on_nonfinite=stop", "train.on_nonfinite=rollback",
                             "train.rerun=true", "optimizer.powersgd.rank=1"}) {
      SCOPED_TRACE(fmt::format("{} {}", dtype, then));
      const Settings keys = {"batch.global=2",
                             "train.steps=5",
                             "layout.data=2",
                             "train.threads=1",
                             then,
                             fmt::format("train.dtype={}", dtype)};
      std::filesystem::remove_all(Folder("run"));
      const Watched run = RunOn(TinyRun(keys), Folder("run"), kOneBatchWithoutTargets);
      EXPECT_THAT(run.notes, Contains(HasSubstr("step 2: skipped, as no token of its batch is a target")));
      EXPECT_EQ(run.steps.size(), 4U);
      EXPECT_EQ(run.last.skipped_steps, 1);
      EXPECT_EQ(run.last.nan_steps, 0);
      EXPECT_EQ(run.last.result.loss_scale, run.steps.front().loss_scale);
      for (const StepResult& step : run.steps) {
        EXPECT_TRUE(std::isfinite(step.loss)) << step.step;
      }
      std::filesystem::remove_all(Folder("told"));
      RunOn(TinyRun(With(keys, {"train.skip_steps=2"})), Folder("told"), kOneBatchWithoutTargets);
      EXPECT_EQ(DigestIn(Folder("run")), DigestIn(Folder("told")));
    }
  }
}

TEST_F(KeptState, AValidationWithoutTargetsIsANote) {
  const Session without = {.change = [](std::int64_t index, Sample& sample) {
    sample.weights.assign(sample.tokens.size() - 1, index < 2 ? 0.0F : 1.0F);
  }};
  const RunConfig config =
      TinyRun({"batch.global=2", "train.steps=2", "train.threads=1", "validation.every=1", "validation.samples=2"});
  const Watched run = RunOn(config, Folder("run"), without);
  EXPECT_THAT(run.validations, testing::IsEmpty());
  EXPECT_THAT(run.notes, Contains(HasSubstr("step 2: no validation loss, as no token of the validation samples is")));
  EXPECT_EQ(RunOn(config, Folder("usual")).validations.size(), 2U);
}

// --- tokens ------------------------------------------------------------------------------------------------------

const Settings kTokens = {"model.family=llama", "batch.global=4", "train.steps=0", "train.threads=1"};

TEST_F(KeptState, TokensAreCountedAsTheyWereTrainedWhenTheSequenceChanges) {
  const auto config = [](std::int64_t sequence, std::int64_t tokens) {
    return TinyRun(With(kTokens, {fmt::format("model.sequence={}", sequence), fmt::format("train.tokens={}", tokens)}));
  };
  const Watched first = RunOn(config(4, 240), Folder("run"), 5);
  EXPECT_EQ(first.steps.back().consumed_tokens, 80);
  EditManifest(Folder("run"), [](std::string& text) { EXPECT_THAT(text, HasSubstr("\"consumed_tokens\": 80")); });
  const Watched second = RunOn(config(8, 240), Folder("run"), 2);
  EXPECT_EQ(second.steps.back().consumed_tokens, 80 + 2 * 32);
  const Watched third = RunOn(config(4, 240), Folder("run"));
  // 96 tokens are left: 24 samples of 4.
  EXPECT_EQ(third.steps.size(), 6U);
  EXPECT_EQ(third.steps.back().consumed_tokens, 240);
  EXPECT_EQ(third.end, LoopEnd::kFinished);
  EXPECT_THAT(RunOn(config(8, 240), Folder("run")).notes, Contains(HasSubstr("nothing to do")));
}

TEST_F(KeptState, ACheckpointThatDoesNotCountTokensHasThoseOfItsOwnSequence) {
  const Settings longer = With(kTokens, {"model.sequence=8", "train.tokens=240"});
  RunOn(TinyRun(With(kTokens, {"model.sequence=4", "train.tokens=240"})), Folder("run"), 5);
  EditManifest(Folder("run"), [](std::string& text) {
    const std::size_t name = text.find("\"consumed_tokens\"");
    ASSERT_NE(name, std::string::npos);
    text.replace(name, 17, "\"an_unknown_name\"");
  });
  const Watched rest = RunOn(TinyRun(longer), Folder("run"));
  EXPECT_EQ(rest.steps.front().consumed_tokens, 80 + 32);
  EXPECT_EQ(rest.steps.back().consumed_tokens, 240);
}

}  // namespace
}  // namespace trireme
