// A schedule run over stages whose parameters and gradients are plain vectors: every schedule gives the gradients of
// the whole model in one piece, and tells each module truly which micro batch is its first and its last.
#include "train/pipeline_runner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>

#include "base/error.h"
#include "nn/model_bench.h"

namespace trireme {
namespace {

// Weights of the whole model, gradients of this rank's part, and what the runner says about each module's work.
class Store : public ParameterSource, public GradientSink {
 public:
  Store(ModelBench& whole, int row_count) : whole_(whole) {
    for (int row = 0; row < row_count; ++row) {
      const Parameter& parameter = whole.table().rows()[static_cast<std::size_t>(row)];
      const bool of_block = parameter.module > 0 && parameter.module + 1 < whole.table().config().modules();
      const bool matrix = of_block && parameter.role == ParameterRole::kWeight;
      gradients_.emplace_back(whole.weight(row).size());
      matrices_.push_back(matrix);
    }
  }

  // The first work on each matrix is told so, and overwrites what is NaN before.
  void set_overwrites() {
    overwrites_ = true;
    for (std::size_t row = 0; row < gradients_.size(); ++row) {
      gradients_[row].assign(gradients_[row].size(), matrices_[row] ? std::nanf("") : 0.0F);
    }
  }

  void Gather(const ParameterUse& use) override { ++present_[use.module]; }
  Tensor Get(int row) override { return whole_.Get(row); }
  void Release(const ParameterUse& use) override { --present_[use.module]; }
  std::int64_t Version(int) const override { return 0; }
  void Open(const ParameterUse&) override {}
  Tensor Gradient(int row) override {
    touched_[row] = true;
    return {gradients_[static_cast<std::size_t>(row)].data(), DType::kFloat32, whole_.Get(row).shape};
  }
  bool Untouched(int /*row*/, bool first) const override { return first && overwrites_; }
  void Finish(const ParameterUse& use, bool last) override { ends_[use.module].push_back(last); }

  // Adds what this rank has to the sum of all.
  void AddTo(std::map<int, std::vector<float>>& sums) const {
    for (const auto& [row, touched] : touched_) {
      const std::vector<float>& mine = gradients_[static_cast<std::size_t>(row)];
      std::vector<float>& sum = sums[row];
      sum.resize(mine.size());
      for (std::size_t i = 0; i < mine.size(); ++i) {
        sum[i] += mine[i];
      }
    }
  }
  void ExpectOrder(int micro_batches) const {
    for (const auto& [module, count] : present_) {
      EXPECT_EQ(count, 0) << "module " << module << " was not released as often as gathered";
    }
    for (const auto& [module, last] : ends_) {
      EXPECT_EQ(last.size(), static_cast<std::size_t>(micro_batches)) << "module " << module;
      EXPECT_EQ(std::count(last.begin(), last.end(), true), 1) << "module " << module;
      EXPECT_TRUE(last.back()) << "module " << module << ": its last micro batch was another";
    }
  }

 private:
  ModelBench& whole_;
  bool overwrites_ = false;
  std::vector<bool> matrices_;  // of blocks
  std::vector<std::vector<float>> gradients_;
  std::map<int, bool> touched_;
  std::map<std::int64_t, int> present_;
  std::map<std::int64_t, std::vector<bool>> ends_;  // of each Finish
};

struct Plan {
  std::string schedule;
  int stages = 1;
  int chunks = 1;
  int micro_batches = 1;
};

RunConfig ConfigOf(const Plan& plan, bool pipelined) {
  RunConfig config = OneRankRun("gpt2");
  config.model.layers = 12;
  config.batch.global = plan.micro_batches;
  config.layout.micro_batch = pipelined ? 1 : plan.micro_batches;
  if (pipelined) {
    config.layout.pipeline = plan.stages;
    config.layout.chunks = plan.chunks;
    config.layout.schedule = plan.schedule;
  }
  Validate(config, 0);
  return config;
}

// Sequence `number` of a batch.
HostBatch Part(const HostBatch& whole, const RunConfig& config, int number) {
  const auto cut = [&](const auto& values) {
    const auto first = values.begin() + number * config.model.sequence;
    return std::vector(first, first + config.model.sequence);
  };
  return {.tokens = cut(whole.tokens), .targets = cut(whole.targets), .weights = cut(whole.weights)};
}

// Memory of a rank's stages and of what passes between them.
class Memory {
 public:
  Tensor Take(DType dtype, const Shape& shape) {
    blocks_.push_back(std::make_unique<char[]>(static_cast<std::size_t>(shape.count() * SizeOf(dtype) + 256)));
    char* const start = blocks_.back().get();
    return {start + (256 - reinterpret_cast<std::uintptr_t>(start) % 256), dtype, shape};
  }

 private:
  std::vector<std::unique_ptr<char[]>> blocks_;
};

// One step of a rank. The last stage's losses are added to `loss`.
void RunRank(const Plan& plan, ModelBench& whole, RankContext& context, Store& store, const HostBatch& batch,
             double& loss) {
  const RunConfig config = ConfigOf(plan, true);
  const int rank = context.world.rank();
  const StageOfRun stage(config, rank, config.batch.global);
  const StageDescription& description = stage.description();
  const LocalSizes& sizes = description.sizes;
  const auto alone = context.world.Split("alone", rank, 0);
  Memory memory;
  const ModuleContext modules{.ops = context.device.ops(),
                              .tensor_group = *alone,
                              .parameters = store,
                              .gradients = store,
                              .table = whole.table(),
                              .model = whole.table().config(),
                              .scratch = memory.Take(DType::kUInt8, {ScratchBytes(description)}).as<char>()};
  std::vector<std::unique_ptr<Stage>> chunks;
  for (int chunk = 0; chunk < plan.chunks; ++chunk) {
    const std::int64_t bytes = description.slots[static_cast<std::size_t>(chunk)] * KeptBytes(description, chunk);
    chunks.push_back(std::make_unique<Stage>(modules, description, chunk,
                                             KeptMemory{.slots = memory.Take(DType::kUInt8, {bytes}).as<char>()}));
  }
  const Shape boundary{sizes.outside, sizes.hidden};
  PipelineRunner runner(context.world, context.device, PlacementOf(config.layout), std::move(chunks),
                        {.output = memory.Take(DType::kFloat32, boundary),
                         .gradient_a = memory.Take(DType::kFloat32, boundary),
                         .gradient_b = memory.Take(DType::kFloat32, boundary)});
  const Schedule schedule = MakeSchedule(plan.schedule, plan.stages, plan.chunks, plan.micro_batches);
  if (runner.FirstWriteIsUnique(schedule)) {
    store.set_overwrites();
  }
  std::vector<HostBatch> parts;
  std::vector<MicroBatch> micro_batches;
  parts.reserve(static_cast<std::size_t>(plan.micro_batches));
  const Tensor sums = memory.Take(DType::kFloat32, {2 * plan.micro_batches});
  for (int i = 0; i < plan.micro_batches; ++i) {
    const HostBatch& part = parts.emplace_back(Part(batch, config, i));
    MicroBatch micro_batch;
    const auto view = [&](const auto& values, DType dtype) {
      return Tensor{const_cast<void*>(static_cast<const void*>(values.data())), dtype, {config.model.sequence}};
    };
    micro_batch.tokens = view(part.tokens, DType::kInt32);
    micro_batch.targets = view(part.targets, DType::kInt32);
    micro_batch.weights = view(part.weights, DType::kFloat32);
    micro_batch.loss_sums = sums.Range(2 * i, 2);
    micro_batch.gradient_factor = 1.0F / static_cast<float>(plan.micro_batches * config.model.sequence);
    micro_batches.push_back(micro_batch);
  }
  runner.Run(schedule, PlanSlots(schedule, rank), micro_batches);
  for (int i = 0; description.HoldsHead() && i < plan.micro_batches; ++i) {
    loss +=
        static_cast<double>(sums.as<float>()[2 * i]) / static_cast<double>(plan.micro_batches * config.model.sequence);
  }
}

class RunnerOf : public testing::TestWithParam<Plan> {};
INSTANTIATE_TEST_SUITE_P(PipelineRunner, RunnerOf,
                         testing::Values(Plan{"gpipe", 2, 1, 3}, Plan{"gpipe", 4, 1, 5}, Plan{"1f1b", 1, 1, 3},
                                         Plan{"1f1b", 2, 1, 1}, Plan{"1f1b", 4, 1, 3}, Plan{"1f1b", 3, 1, 7},
                                         Plan{"interleaved", 2, 2, 4}, Plan{"interleaved", 2, 3, 2},
                                         Plan{"zero_bubble", 2, 1, 4}, Plan{"zero_bubble", 4, 1, 6},
                                         Plan{"zero_bubble_v", 2, 2, 5}, Plan{"zero_bubble_v", 3, 2, 7}),
                         [](const auto& one) {
                           return fmt::format("{}_p{}_v{}_m{}",
                                              one.param.schedule == "1f1b" ? "one" : one.param.schedule,
                                              one.param.stages, one.param.chunks, one.param.micro_batches);
                         });

TEST_P(RunnerOf, GivesTheGradientsOfTheWholeModelInOnePiece) {
  const Plan& plan = GetParam();
  const RunConfig one = ConfigOf(plan, false);
  const HostBatch batch = RandomBatch(one, 11);
  OnOneRank([&](RankContext& context) {
    ModelBench whole(one, context);
    const double expected_loss = whole.Gradients(batch);
    std::mutex mutex;
    std::map<int, std::vector<float>> sums;
    double loss = 0;
    RunThreadRanks(plan.stages, {.kind = "cpu"}, [&](RankContext& rank) {
      Store store(whole, static_cast<int>(whole.table().rows().size()));
      double mine = 0;
      RunRank(plan, whole, rank, store, batch, mine);
      store.ExpectOrder(plan.micro_batches);
      const std::scoped_lock lock(mutex);
      store.AddTo(sums);
      loss += mine;
    });
    EXPECT_NEAR(loss, expected_loss, 1e-6 * expected_loss);
    ASSERT_EQ(sums.size(), whole.table().rows().size()) << "some parameter got no gradient";
    for (const auto& [row, sum] : sums) {
      const std::vector<float>& expected = whole.gradient(row);
      double norm = 0;
      double difference = 0;
      for (std::size_t i = 0; i < sum.size(); ++i) {
        norm += std::pow(expected[i], 2);
        difference += std::pow(static_cast<double>(sum[i]) - expected[i], 2);
      }
      EXPECT_LE(std::sqrt(difference), 1e-5 * std::sqrt(norm))
          << whole.table().rows()[static_cast<std::size_t>(row)].name;
    }
  });
}

}  // namespace
}  // namespace trireme
