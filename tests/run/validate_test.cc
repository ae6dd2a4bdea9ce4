#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "message_of.h"
#include "run/run_config.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string Refusal(const std::vector<std::string>& settings, int ranks = 0) {
  return test::MessageOf([&] { Validate(ParseRecipe("", "test.toml", settings).config, ranks); });
}

TEST(ValidateRun, AcceptsTheDefaults) {
  EXPECT_EQ(Refusal({}), "");
  EXPECT_EQ(Refusal({}, 1), "");
}

TEST(ValidateRun, RanksMustBeTheProductOfTheAxes) {
  const std::vector<std::string> layout = {"layout.tensor=2", "layout.pipeline=2", "layout.data=2"};
  EXPECT_EQ(Refusal(layout, 8), "");
  EXPECT_THAT(Refusal(layout, 12),
              AllOf(HasSubstr("layout.tensor = 2"), HasSubstr("layout.pipeline = 2"),
                    HasSubstr("= 8 ranks, but the run has 12"), HasSubstr("layout.data = 3 would fit")));
  EXPECT_THAT(Refusal(layout, 6), HasSubstr("nearest that work are 4 or 8 ranks"));
  EXPECT_THAT(Refusal({"layout.tensor=1000000", "layout.pipeline=1000000", "layout.data=1000000"}),
              HasSubstr("is more than 1048576 ranks"));
}

TEST(ValidateRun, UniformStagesMustDivideTheLayers) {
  const std::vector<std::string> settings = {"model.layers=78", "layout.pipeline=12", "batch.global=12"};
  EXPECT_THAT(Refusal(settings), AllOf(HasSubstr("78"), HasSubstr("12"), HasSubstr("72 or 84"), HasSubstr("6 or 13")));
  std::vector<std::string> balanced = settings;
  balanced.emplace_back("layout.partition=balanced");
  EXPECT_EQ(Refusal(balanced), "");
  EXPECT_THAT(Refusal({"layout.pipeline=100000", "layout.chunks=10000", "layout.schedule=interleaved"}),
              HasSubstr("virtual stages"));
}

TEST(ValidateRun, TensorDegreeMustDivideTheHeads) {
  EXPECT_THAT(Refusal({"layout.tensor=3"}), HasSubstr("layout.tensor = 3 does not divide model.heads = 4"));
}

TEST(ValidateRun, TheBatchMustDivideAtEveryStepOfTheRamp) {
  EXPECT_THAT(Refusal({"batch.global=10", "layout.micro_batch=4"}),
              AllOf(HasSubstr("batch.global = 10"), HasSubstr("8 or 12")));
  // 8, 14, 20: the middle one is never seen by looking at both ends.
  EXPECT_THAT(Refusal({"batch.global=20", "batch.ramp_up={start=8, increment=6, samples=1000}", "layout.data=4"}),
              AllOf(HasSubstr("the batch of 14"), HasSubstr("12 or 16")));
  EXPECT_EQ(Refusal({"batch.global=20", "batch.ramp_up={start=8, increment=4, samples=1000}", "layout.data=4"}), "");
}

TEST(ValidateRun, ARampMustBeWhole) {
  EXPECT_THAT(Refusal({"batch.global=16", "batch.ramp_up={start=8, increment=3, samples=10}"}),
              HasSubstr("the nearest that does is 2 or 4"));
  EXPECT_THAT(Refusal({"batch.ramp_up={start=99, increment=3, samples=10}"}), HasSubstr("above batch.global"));
  EXPECT_THAT(Refusal({"batch.ramp_up={start=4, samples=10}"}), HasSubstr("batch.ramp_up.increment = 0"));
  EXPECT_THAT(Refusal({"batch.ramp_up={start=4, increment=4}"}), HasSubstr("batch.ramp_up.samples = 0"));
  EXPECT_THAT(Refusal({"batch.ramp_up={increment=4}"}), HasSubstr("no start"));
}

TEST(ValidateRun, ScheduleCountsMustSuitEveryBatch) {
  const std::vector<std::string> interleaved = {"model.layers=8", "layout.pipeline=4", "layout.chunks=2",
                                                "layout.schedule=interleaved"};
  EXPECT_EQ(Refusal(interleaved), "");
  std::vector<std::string> odd = interleaved;
  odd.emplace_back("batch.global=10");
  EXPECT_THAT(Refusal(odd), AllOf(HasSubstr("global batch of 10"), HasSubstr("8 or 12")));
  std::vector<std::string> ramp = interleaved;
  ramp.emplace_back("batch.ramp_up={start=2, increment=2, samples=100}");
  EXPECT_THAT(Refusal(ramp), HasSubstr("global batch of 2"));
  EXPECT_THAT(Refusal({"layout.chunks=2", "layout.pipeline=2", "model.layers=4"}), HasSubstr("runs 1 chunk per stage"));
  EXPECT_THAT(Refusal({"layout.chunks=2", "model.layers=4"}), HasSubstr("a pipeline of 2 or more"));
  EXPECT_THAT(Refusal({"layout.schedule=1f2b"}), HasSubstr("did you mean '1f1b'?"));
  EXPECT_THAT(Refusal({"layout.schedule=mine.schedule"}), HasSubstr("'mine.schedule' does not exist"));
}

TEST(ValidateRun, NoChunkRecomputesMoreBlocksThanItHas) {
  const std::vector<std::string> settings = {"model.layers=6", "layout.pipeline=2", "batch.global=4",
                                             "layout.partition=[2,4]", "layout.recompute=full"};
  const auto with = [&](const char* layers) {
    std::vector<std::string> all = settings;
    all.push_back(std::string("layout.recompute_layers=") + layers);
    return Refusal(all);
  };
  EXPECT_EQ(with("4"), "");
  EXPECT_THAT(with("5"), HasSubstr("more than the 4 blocks of the largest chunk"));
}

TEST(ValidateRun, AMicroBatchCanBeCounted) {
  EXPECT_THAT(Refusal({"model.sequence=16777216", "layout.micro_batch=1048576", "batch.global=1048576"}),
              AllOf(HasSubstr("more than any memory holds"), HasSubstr("layout.micro_batch = 1048576")));
}

TEST(ValidateRun, SequenceParallelismCutsTokens) {
  EXPECT_THAT(Refusal({"model.sequence=63", "layout.tensor=2", "layout.sequence_parallel=true"}),
              HasSubstr("63 tokens"));
}

TEST(ValidateRun, ContextCutsSequencesIntoChunks) {
  EXPECT_EQ(Refusal({"layout.context=2"}), "");
  EXPECT_EQ(Refusal({"layout.context=2", "layout.context_kind=ulysses", "layout.tensor=1"}), "");
  EXPECT_THAT(Refusal({"model.sequence=66", "layout.context=2"}),
              AllOf(HasSubstr("layout.context = 2 cuts model.sequence = 66 into 4 chunks"), HasSubstr("1 or 3")));
  EXPECT_THAT(Refusal({"layout.context=8", "layout.context_kind=ulysses", "layout.tensor=1", "model.heads=4"}),
              AllOf(HasSubstr("does not divide model.heads = 4"), HasSubstr("degree that does is 4"),
                    HasSubstr("'allgather'")));
  EXPECT_THAT(Refusal({"layout.context_kind=rings"}), HasSubstr("known: allgather, ulysses, ring, ulysses+ring"));
  EXPECT_EQ(Refusal({"layout.zero=1", "layout.data=2", "layout.context=2", "layout.shard_ranks=4"}), "");
}

TEST(ValidateRun, SaysWhatTrainingDoesNotOffer) {
  for (const char* zero : {"layout.zero=0", "layout.zero=1", "layout.zero=2", "layout.zero=3"}) {
    EXPECT_EQ(Refusal({"layout.offload=full", zero}), "");
    EXPECT_EQ(Refusal({"layout.offload=optimizer", zero}), "");
  }
  EXPECT_EQ(Refusal({"train.dtype=fp16"}), "");
  EXPECT_THAT(Refusal({"train.dtype=fp16", "train.min_loss_scale=131072"}),
              AllOf(HasSubstr("train.min_loss_scale = 131072"), HasSubstr("train.initial_loss_scale = 65536")));
  EXPECT_EQ(Refusal({"optimizer.name=lion"}), "");
  EXPECT_THAT(Refusal({"layout.zero=2", "optimizer.powersgd.rank=4"}), HasSubstr("the nearest is layout.zero = 1"));
  EXPECT_THAT(Refusal({"layout.zero=0", "optimizer.powersgd.rank=4", "train.rerun=true"}), HasSubstr("train.rerun"));
  EXPECT_THAT(Refusal({"layout.zero=0", "optimizer.powersgd.rank=4", "layout.reduce=bf16"}),
              HasSubstr("layout.reduce"));
  EXPECT_THAT(Refusal({"layout.zero=0", "layout.shard_ranks=1"}), HasSubstr("layout.zero is 0"));
  EXPECT_EQ(Refusal({"layout.zero=3", "layout.whole_below=100000", "layout.reduce=int8", "layout.gather=int8"}), "");
  EXPECT_THAT(Refusal({"layout.zero=2", "layout.whole_below=100000"}),
              HasSubstr("set layout.whole_below = 0 or layout.zero = 3"));
  EXPECT_THAT(Refusal({"layout.zero=1", "layout.gather=int8"}), HasSubstr("only stage 3 gathers weights"));
  EXPECT_EQ(Refusal({"layout.zero=3", "layout.gather=bf16", "train.dtype=fp32"}), "");
  EXPECT_THAT(Refusal({"layout.zero=3", "layout.gather=bf16", "train.dtype=bf16"}),
              HasSubstr("weights have 16 bits already"));
  EXPECT_THAT(Refusal({"layout.reduce=int4"}), HasSubstr("known: exact, bf16, int8"));
  EXPECT_THAT(Refusal({"layout.zero=3", "layout.shard_ranks=1000"}), HasSubstr("does not divide layout.data"));
  EXPECT_THAT(Refusal({"optimizer.name=adam"}), HasSubstr("known: adamw, adafactor, lion, muon, sgd"));
  EXPECT_THAT(Refusal({"optimizer.name=adafactor", "layout.offload=full"}), HasSubstr("layout.offload = 'optimizer'"));
  EXPECT_THAT(Refusal({"optimizer.moments=fp16"}), HasSubstr("known: fp32, bf16"));
  EXPECT_EQ(Refusal({"optimizer.moments=bf16"}), "");
  EXPECT_THAT(Refusal({"train.attention=slow"}), HasSubstr("known: flash, plain"));
  EXPECT_EQ(Refusal({"train.attention=plain"}), "");
  EXPECT_THAT(Refusal({"layout.zero=4"}), HasSubstr("nearest that works is 3"));
}

TEST(ValidateRun, SaysWhatAdaptersDoNotWorkWith) {
  EXPECT_EQ(Refusal({"lora.rank=4", "lora.targets=attention.qkv, mlp.out", "train.dtype=bf16", "layout.zero=3"}), "");
  EXPECT_THAT(Refusal({"lora.rank=4", "lora.targets=atention.qkv"}),
              AllOf(HasSubstr("'atention.qkv' is no product of a block"), HasSubstr("attention.qkv")));
  EXPECT_THAT(Refusal({"lora.rank=65"}), HasSubstr("lora.rank = 65 must be between 0 (no adapters) and model.hidden"));
  for (const char* dtype : {"fp16", "fp8"}) {
    EXPECT_THAT(Refusal({"lora.rank=4", std::string("train.dtype=") + dtype}),
                HasSubstr("the nearest is train.dtype = 'bf16'"));
  }
  EXPECT_THAT(Refusal({"lora.rank=4", "layout.offload=full"}), HasSubstr("set layout.offload = 'none'"));
  EXPECT_THAT(Refusal({"lora.rank=4", "optimizer.powersgd.rank=2"}), HasSubstr("set optimizer.powersgd.rank = 0"));
  const std::vector<std::string> muon = {"lora.rank=4", "optimizer.name=muon", "layout.data=4", "layout.zero=2"};
  EXPECT_EQ(Refusal(muon), "");
  for (const char* copied : {"layout.tensor=2", "layout.shard_ranks=2"}) {
    std::vector<std::string> settings = muon;
    settings.emplace_back(copied);
    EXPECT_THAT(Refusal(settings), HasSubstr("use optimizer.name = 'adamw', or layout.tensor = 1"));
  }
}

TEST(ValidateRun, Fp8NeedsExtentsOfSixteen) {
  EXPECT_THAT(Refusal({"train.dtype=fp8", "model.hidden=40", "model.heads=2"}), HasSubstr("model.hidden is 40"));
  EXPECT_THAT(Refusal({"train.dtype=fp8", "model.hidden=64", "model.heads=2", "model.sequence=24"}),
              HasSubstr("layout.micro_batch * model.sequence is 24"));
  EXPECT_EQ(Refusal({"train.dtype=fp8", "model.hidden=64", "model.heads=2", "model.sequence=32"}), "");
}

TEST(ValidateRun, RefusesContradictions) {
  EXPECT_THAT(Refusal({"train.samples=5", "train.tokens=5"}), HasSubstr("keep one"));
  EXPECT_THAT(Refusal({"optimizer.schedule={kind='cosine', warmup_samples=50, decay_samples=50}"}),
              HasSubstr("must be below decay_samples = 50"));
}

TEST(ValidateRun, SplitMustBeShares) {
  for (const char* split : {"95;5;0", "a", "1,2,3,4", "-1,2,0", "0,0,0", "1,,2", "nan,1,1"}) {
    EXPECT_THAT(Refusal({std::string("data.split=") + split}), HasSubstr("data.split")) << split;
  }
  EXPECT_EQ(Refusal({"data.split=9,1"}), "");
  EXPECT_EQ(Refusal({"data.split=0.9,0.1,0"}), "");
}

TEST(ValidateRun, ChecksConfigsMadeInCodeToo) {
  RunConfig config;
  config.model = Completed(config.model);
  config.layout.zero = 9;
  EXPECT_THROW(Validate(config, 0), Error);
  config.layout.zero = 0;
  config.optimizer.beta1 = 1.5;
  EXPECT_THROW(Validate(config, 0), Error);
}

}  // namespace
}  // namespace trireme
