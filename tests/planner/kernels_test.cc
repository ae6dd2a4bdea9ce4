// What a query says of other programs' kernels, and what their processes hold in host memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "message_of.h"
#include "planner/fixtures.h"
#include "planner/pricing/block_time.h"
#include "planner/queries/plan_answer.h"
#include "planner/queries/shapes.h"

namespace trireme {
namespace {

using test::Machine;
using test::MessageOf;
using testing::Contains;
using testing::HasSubstr;

struct PublishedSize {
  int devices;
  double parameters;  // of the largest model that ran
};

// The largest models under Hugging Face with ZeRO 3 and full offload on nodes of four V100s. No constant is fitted to
// them: each one's error is what leaving it out would give.
TEST(HostMemory, BoundsTheLargestModelUnderFullOffload) {
  const Machine machine("jean-zay-v100-32g", "hf-deepspeed-2021");
  const ModelConfig family = Completed(
      ModelConfig{.family = "gpt2", .layers = 40, .hidden = 7168, .heads = 32, .vocabulary = 50257, .sequence = 1024});
  for (const PublishedSize& one :
       {PublishedSize{16, 25.03e9}, PublishedSize{32, 51.97e9}, PublishedSize{64, 98.03e9}}) {
    SearchRequest request = machine.Request(family, one.devices, 4L * one.devices);
    request.config.train.dtype = "fp16";
    request.zero = 3;
    request.offload = "full";
    request.recompute = "full";
    request.micro_batch = 4;
    const ShapeProposal largest = LargestModel(request);
    EXPECT_NEAR(static_cast<double>(largest.parameters) / one.parameters, 1, 0.2) << one.devices << " devices";
  }
}

TEST(HostMemory, CountsBuffersAndProcesses) {
  const Machine machine("jean-zay-v100-32g", "hf-deepspeed-2021");
  const ModelConfig model = Completed(
      ModelConfig{.family = "gpt2", .layers = 40, .hidden = 7168, .heads = 32, .vocabulary = 50257, .sequence = 1024});
  SearchRequest request = machine.Request(model, 16, 64);
  const ParallelLayout layout{
      .data = 16, .zero = 3, .recompute = Recompute::kFull, .micro_batch = 4, .offload = Offload::kFull};
  const double own = Price(request, layout).host;
  StackState bare = machine.state;
  bare.memory.host_buffers = 1;
  bare.memory.host_process = 0;
  const SearchRequest without{
      .cluster = machine.cluster, .stack = machine.stack, .state = bare, .config = request.config, .devices = 16};
  EXPECT_DOUBLE_EQ(own, 1.5 * Price(without, layout).host + 4 * 2.0 * 1024 * 1024 * 1024);
}

// A table of runs has two of one program: one of a layer on four devices of a node was killed for host memory, one of
// two layers on eight devices of two nodes ran.
TEST(HostMemory, TellsAJobThatIsKilledFromOneThatRuns) {
  const Machine machine("perlmutter", "megatron-ds-2023");
  const auto fits = [&](int layers, int tensor) {
    const ModelConfig model = Completed(ModelConfig{
        .family = "gpt2", .layers = layers, .hidden = 25600, .heads = 160, .vocabulary = 50257, .sequence = 2048});
    SearchRequest request = machine.Request(model, tensor, 32);
    request.config.train.dtype = "fp16";
    request.headroom = 0;
    request.most_tensor = tensor;
    const Candidate candidate =
        Price(request, {.tensor = tensor, .zero = 1, .recompute = Recompute::kFull, .micro_batch = 2});
    EXPECT_LT(candidate.peak, UsableMemory(machine.cluster)) << layers;
    return Fits(request, candidate);
  };
  EXPECT_FALSE(fits(1, 4));
  EXPECT_TRUE(fits(2, 8));
}

TEST(HostMemory, APinnedBufferIsRoundedUpToAPowerOfTwo) {
  const Machine machine("perlmutter", "megatron-ds-2023");
  const ModelConfig model = Completed(
      ModelConfig{.family = "gpt2", .layers = 8, .hidden = 4096, .heads = 32, .vocabulary = 50257, .sequence = 2048});
  const ParallelLayout layout{.tensor = 4, .zero = 1, .recompute = Recompute::kFull};
  const auto rank = [&](double pinned) {
    StackState state = machine.state;
    state.memory.pinned = pinned;
    const PlanPoint point = machine.Point(model, layout, 8).Under(state);
    PipelineClock clock;
    return EstimateMemory(point, ModelAccount(model), BlocksOfStages(point), clock).stages.front().host;
  };
  const PlanPoint point = machine.Point(model, layout, 8);
  const double buffer =
      4 * point.prices.Parameters(point, ModelAccount(model), BlocksOfStages(point), 0, CountedParameters{});
  double rounded = 1;
  while (rounded < buffer) {
    rounded *= 2;
  }
  EXPECT_DOUBLE_EQ(rank(4) - rank(0), rounded - buffer);
  EXPECT_GT(rounded, buffer);
}

PlanAnswer Explained(const std::string& layout, PlanOptions options, std::int64_t heads = 64,
                     const std::string& cluster = "jean-zay-a100") {
  const Machine machine(cluster, "megatron-ds-2022");
  const ModelConfig model = Completed(ModelConfig{
      .family = "gpt2", .layers = 24, .hidden = 13824, .heads = heads, .vocabulary = 50257, .sequence = 2048});
  options.gpus = 64;
  options.global_batch = 256;
  options.layout = layout;
  options.layout_defaults = true;
  return AnswerPlan({.cluster = machine.cluster, .stack = machine.stack, .model = model, .compared = {}}, options);
}

TEST(Kernels, OptionsOfAQueryChangeThePriceOfAnotherProgram) {
  const std::string layout = "tp=4 pp=4 dp=4 zero=1 mbs=2 recompute=full";
  const auto figure = [&](const PlanOptions& options, const char* key) {
    return Explained(layout, options).json[key].get<double>();
  };
  const double seconds = figure({}, "seconds");
  EXPECT_LT(figure({.attention = "flash"}, "seconds"), seconds);
  EXPECT_EQ(figure({.attention = "plain"}, "seconds"), seconds) << "which the program has";
  EXPECT_EQ(figure({.launch_blocking = true}, "seconds"), seconds) << "as that site's jobs did";
  const auto elsewhere = [&](const PlanOptions& options) {
    return Explained(layout, options, 64, "dgx-h100").json["seconds"].get<double>();
  };
  EXPECT_GT(elsewhere({.launch_blocking = true}), elsewhere({}));
  EXPECT_GT(figure({.optimizer = "torch-adam"}, "seconds"), seconds);
  EXPECT_EQ(figure({.optimizer = "torch-adam"}, "peak_gib"), figure({}, "peak_gib"));
  const PlanOptions half{.dtype = "fp16"};
  EXPECT_GT(figure({.dtype = "fp16", .accumulate = "fp32"}, "peak_gib"), figure(half, "peak_gib"));
  EXPECT_GT(figure({.dtype = "fp16", .accumulate = "fp32"}, "seconds"), figure(half, "seconds"));
  EXPECT_THAT(MessageOf([&] { RequireConsistent({.accumulate = "fp64"}); }), HasSubstr("fp32, working or auto"));
}

// 108 heads over four ranks are 27: with micro batches of two no multiple of four, with four one.
TEST(Kernels, ASoftmaxThatIsNotFusedCostsMore) {
  const Machine machine("jean-zay-a100", "megatron-ds-2022");
  const ModelConfig model = Completed(ModelConfig{
      .family = "gpt2", .layers = 24, .hidden = 13824, .heads = 108, .vocabulary = 50257, .sequence = 2048});
  ParallelLayout layout{.tensor = 4, .pipeline = 4, .data = 4, .micro_batch = 2};
  EXPECT_FALSE(FusesSoftmax(machine.Point(model, layout, 256)));
  layout.micro_batch = 4;
  EXPECT_TRUE(FusesSoftmax(machine.Point(model, layout, 256)));
  const PlanAnswer broken = Explained("tp=4 pp=4 dp=4 zero=1 mbs=2 recompute=full", {}, 108);
  EXPECT_THAT(broken.text, HasSubstr("fused softmax"));
  const PlanAnswer kept = Explained("tp=4 pp=4 dp=4 zero=1 mbs=4 recompute=full", {}, 108);
  EXPECT_THAT(kept.text, testing::Not(HasSubstr("fused softmax")));
  EXPECT_GT(broken.json["seconds_by_cause"]["attention"].get<double>(),
            1.2 * kept.json["seconds_by_cause"]["attention"].get<double>());
}

}  // namespace
}  // namespace trireme
