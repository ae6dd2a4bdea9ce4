// Ranks over NCCL without a GPU: the library's functions are those of host_nccl.cc. What this shows is which calls
// ranks make and in which order, above all while groups are made; what a GPU does with them is for nccl_ranks_test.
#include "comm/collective_cases.h"
#include "comm/nccl_communicator.h"
#include "operate/training_loop.h"

namespace trireme {
namespace {

// Threads that share a GPU, or have one each.
void RunOverNccl(int ranks, bool shared, const std::function<void(RankContext&)>& body) {
  const GpuUse use = {.shared = shared, .ranks_of_context = shared ? ranks : 1};
  const std::shared_ptr<NcclSession> session = MakeNcclSession(use, {});
  RunThreadRanks(ranks, {.kind = "cpu"}, [&](RankContext& host) {
    const auto world = MakeNcclCommunicator(host.world.Split("world", 0, host.world.rank()), host.device, session);
    RankContext context{host.device, *world};
    try {
      body(context);
    } catch (...) {
      world->AbortDevice();  // others may wait for this rank
      throw;
    }
  });
}

using CaseAndSize = std::tuple<CollectiveCase, int>;
class HostNcclCollectives : public testing::TestWithParam<CaseAndSize> {};

TEST_P(HostNcclCollectives, AgreeWithSerialResults) {
  const auto& [collective_case, ranks] = GetParam();
  for (const bool shared : {true, false}) {
    EXPECT_NO_THROW(RunOverNccl(ranks, shared, collective_case.run)) << shared;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, HostNcclCollectives,
                         testing::Combine(testing::ValuesIn(CollectiveCases().begin(), CollectiveCases().end()),
                                          testing::Values(2, 4)),
                         [](const auto& instance) {
                           return std::string(std::get<0>(instance.param).name) + "Of" +
                                  std::to_string(std::get<1>(instance.param));
                         });

struct HostNcclLayout {
  const char* name;
  std::vector<std::string> keys;
};

class HostNcclLayouts : public testing::TestWithParam<HostNcclLayout> {};

INSTANTIATE_TEST_SUITE_P(
    Rows, HostNcclLayouts,
    testing::Values(
        HostNcclLayout{"Zero3", {"layout.data=4", "layout.zero=3"}},
        HostNcclLayout{"Tensor2Pipeline2Data2", {"layout.tensor=2", "layout.pipeline=2", "layout.data=2"}},
        HostNcclLayout{"Pipeline4", {"layout.pipeline=4"}},
        HostNcclLayout{"Tensor2Pipeline2Context2", {"layout.tensor=2", "layout.pipeline=2", "layout.context=2"}},
        HostNcclLayout{"RingPipeline2", {"layout.context=4", "layout.context_kind=\"ring\"", "layout.pipeline=2"}},
        HostNcclLayout{"Ulysses", {"layout.context=4", "layout.context_kind=\"ulysses\""}},
        HostNcclLayout{
            "UlyssesWithinRing",
            {"layout.data=2", "layout.context=4", "layout.context_kind=\"ulysses+ring\"", "layout.ulysses=2"}},
        HostNcclLayout{"Int8", {"layout.data=4", "layout.zero=2", "layout.reduce=\"int8\""}},
        HostNcclLayout{"Muon", {"layout.data=2", "layout.tensor=2", "layout.zero=2", "optimizer.name=\"muon\""}},
        // Stages without matrices, and without anything to train.
        HostNcclLayout{"MuonWithAnEmptyFirstStage",
                       {"layout.data=2", "layout.zero=1", "layout.pipeline=3", "layout.partition=\"0,2,2\"",
                        "optimizer.name=\"muon\""}},
        HostNcclLayout{"MuonInt8WithAnEmptyLastStage",
                       {"layout.data=2", "layout.pipeline=3", "layout.partition=\"2,2,0\"", "optimizer.name=\"muon\"",
                        "layout.reduce=\"int8\""}},
        HostNcclLayout{"AdaptersInt8WithAnEmptyFirstStage",
                       {"layout.data=2", "layout.pipeline=3", "layout.partition=\"0,2,2\"", "layout.reduce=\"int8\"",
                        "lora.rank=4"}}),
    [](const auto& instance) { return std::string(instance.param.name); });

using RunRanks = std::function<void(int ranks, const std::function<void(RankContext&)>& body)>;

std::vector<double> LossesOf(const RunConfig& config, const RunRanks& run) {
  const auto source = OpenRunSource(config, "train");
  std::vector<double> losses;
  run(config.layout.ranks(), [&](RankContext& context) {
    Trainer trainer(config, context, {.train = source.get(), .validation = nullptr});
    for (int step = 0; step < 3; ++step) {
      const double loss = trainer.Step().loss;
      if (context.world.rank() == 0) {
        losses.push_back(loss);
      }
    }
  });
  return losses;
}

TEST_P(HostNcclLayouts, TrainToTheBitsOfThreadRanks) {
  std::vector<std::string> keys = {"model.layers=4",    "model.hidden=64",      "model.heads=8",
                                   "model.sequence=32", "model.vocabulary=128", "batch.global=16",
                                   "train.steps=3",     "layout.micro_batch=1", "data.source=\"synthetic\"",
                                   "train.threads=1",   "checkpoint.every=0"};
  keys.insert(keys.end(), GetParam().keys.begin(), GetParam().keys.end());
  const RunConfig config = ParseRecipe("", "nccl.toml", keys).config;
  const std::vector<double> expected =
      LossesOf(config, [](int ranks, const auto& body) { RunThreadRanks(ranks, {.kind = "cpu"}, body); });
  for (const bool shared : {true, false}) {
    EXPECT_EQ(LossesOf(config, [&](int ranks, const auto& body) { RunOverNccl(ranks, shared, body); }), expected)
        << shared;
  }
}

}  // namespace
}  // namespace trireme
