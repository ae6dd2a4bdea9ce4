// Each module's backward, of its input and of every parameter, against finite differences of its forward.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <set>

#include "base/random.h"
#include "base/random_normal.h"
#include "nn/model_bench.h"
#include "nn/module.h"

namespace trireme {
namespace {

std::vector<float> Drawn(std::int64_t count, const std::string& name, float deviation = 1) {
  std::vector<float> values(static_cast<std::size_t>(count));
  const std::uint64_t key = RandomKey(3, name);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = deviation * RandomNormal(key, i);
  }
  return values;
}

Tensor Matrix(std::vector<float>& values, std::int64_t rows, std::int64_t columns) {
  return {values.data(), DType::kFloat32, {rows, columns}};
}

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * b[i];
  }
  return sum;
}

// A module with memory of its own. Its loss is the product of its output with fixed random numbers.
class ModuleBench {
 public:
  ModuleBench(ModelBench& model, std::unique_ptr<Module> module, const RunConfig& config)
      : model_(model),
        module_(std::move(module)),
        batch_(RandomBatch(config, 6)),
        kept_(static_cast<std::size_t>(module_->kept_bytes()) + 64),
        rows_(config.layout.micro_batch * config.model.sequence),
        columns_(config.model.hidden),
        input_(Drawn(rows_ * columns_, "input")),
        output_(input_.size()),
        grad_out_(Drawn(rows_ * columns_, "gradient of the output")),
        grad_in_(input_.size()) {}

  // Whether it reads an input: the embedding does not.
  void ExpectBackward(std::int64_t module_number, bool has_input, bool in_parts) {
    model_.ClearGradients();
    Forward(true);
    std::vector<float> given = grad_out_;
    const Tensor to = Matrix(grad_in_, rows_, columns_);
    const MicroBatch micro_batch = model_.View(batch_, true);
    if (in_parts) {
      module_->BackwardInput(micro_batch, kept(), Matrix(given, rows_, columns_), to);
      module_->BackwardWeight(micro_batch, kept());
    } else {
      module_->Backward(micro_batch, kept(), Matrix(given, rows_, columns_), to);
    }
    for (const int row : model_.table().OfModule(module_number)) {
      ExpectDirections({.name = model_.table().rows()[static_cast<std::size_t>(row)].name,
                        .values = model_.weight(row),
                        .gradient = model_.gradient(row),
                        .loss = [&] { return Forward(true); },
                        .absolute = 5e-4});  // losses of ten and more
    }
    if (has_input) {
      ExpectDirections({.name = "input",
                        .values = input_,
                        .gradient = grad_in_,
                        .loss = [&] { return Forward(true); },
                        .absolute = 5e-4});
    }
  }

 private:
  char* kept() { return kept_.data() + (64 - reinterpret_cast<std::uintptr_t>(kept_.data()) % 64); }
  double Forward(bool training) {
    const Tensor input = module_->Input(kept());
    if (input.given()) {
      std::copy(input_.begin(), input_.end(), input.as<float>());
    }
    module_->Forward(model_.View(batch_, training), kept(), Matrix(output_, rows_, columns_));
    return Dot(output_, grad_out_);
  }

  ModelBench& model_;
  std::unique_ptr<Module> module_;
  HostBatch batch_;
  std::vector<char> kept_;
  std::int64_t rows_;
  std::int64_t columns_;
  std::vector<float> input_;
  std::vector<float> output_;
  std::vector<float> grad_out_;
  std::vector<float> grad_in_;
};

std::unique_ptr<Module> EmbeddingOf(ModelBench& model, const RunConfig& config) {
  const LocalSizes& sizes = model.description().sizes;
  return std::make_unique<Module>(model.modules(), sizes, PlanEmbedding(config.model, sizes), 0);
}

std::unique_ptr<Module> BlockOf(const ModuleContext& modules, const LocalSizes& sizes, std::int64_t number) {
  return std::make_unique<Module>(modules, sizes, PlanBlock(modules.model, sizes), number);
}

class ModulesOf : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Modules, ModulesOf, testing::Values("gpt2", "bloom", "llama"),
                         [](const auto& one) { return one.param; });

TEST_P(ModulesOf, TheEmbeddingsBackwardIsThatOfFiniteDifferences) {
  for (const double dropout : {0.0, 0.4}) {
    RunConfig config = OneRankRun(GetParam());
    config.model.dropout = dropout;
    OnOneRank([&](RankContext& context) {
      ModelBench model(config, context);
      ModuleBench bench(model, EmbeddingOf(model, config), config);
      bench.ExpectBackward(0, false, false);
    });
  }
}

TEST_P(ModulesOf, ABlocksBackwardIsThatOfFiniteDifferences) {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kLight, Recompute::kSelective, Recompute::kFull}) {
    for (const double dropout : {0.0, 0.4}) {
      SCOPED_TRACE(fmt::format("recompute {}, dropout {}", static_cast<int>(recompute), dropout));
      RunConfig config = OneRankRun(GetParam());
      config.model.dropout = dropout;
      config.layout.recompute = recompute;
      OnOneRank([&](RankContext& context) {
        ModelBench model(config, context);
        ModuleBench bench(model, BlockOf(model.modules(), model.description().sizes, 2), config);
        bench.ExpectBackward(2, true, false);
      });
    }
  }
}

TEST_P(ModulesOf, ABlocksBackwardInTwoPartsIsThatOfFiniteDifferences) {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kLight, Recompute::kFull}) {
    for (const double dropout : {0.0, 0.4}) {
      SCOPED_TRACE(fmt::format("recompute {}, dropout {}", static_cast<int>(recompute), dropout));
      RunConfig config = OneRankRun(GetParam());
      config.model.dropout = dropout;
      config.layout.recompute = recompute;
      OnOneRank([&](RankContext& context) {
        ModelBench model(config, context);
        const LocalSizes sizes(config.model, config.layout, DType::kFloat32, true);
        const ModuleProgram plan = PlanBlock(config.model, sizes);
        std::vector<char> scratch(static_cast<std::size_t>(plan.scratch_bytes) + 256);
        ModuleContext modules = model.modules();
        modules.scratch = scratch.data() + (256 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 256);
        ModuleBench bench(model, BlockOf(modules, sizes, 1), config);
        bench.ExpectBackward(1, true, true);
      });
    }
  }
}

// The head's loss is its own, and its gradients are made in forward.
TEST_P(ModulesOf, TheHeadsGradientsAreThoseOfFiniteDifferences) {
  for (const bool tied : {false, true}) {
    SCOPED_TRACE(tied);
    RunConfig config = OneRankRun(GetParam());
    config.model.tie_embeddings = tied;
    OnOneRank([&](RankContext& context) {
      ModelBench model(config, context);
      const LocalSizes& sizes = model.description().sizes;
      Module head(model.modules(), sizes, PlanHead(config.model, sizes, 7), config.model.modules() - 1);
      std::vector<char> memory(static_cast<std::size_t>(head.kept_bytes()) + 64);
      char* const kept = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64);
      HostBatch batch = RandomBatch(config, 7);
      batch.weights[3] = 0;
      batch.weights[4] = 0.5F;
      std::vector<float> input = Drawn(sizes.tokens * sizes.hidden, "head");
      const auto run = [&](bool training) {
        const MicroBatch micro_batch = model.View(batch, training);
        std::copy(input.begin(), input.end(), head.Input(kept).as<float>());
        head.Forward(micro_batch, kept, {});
        return static_cast<double>(micro_batch.loss_sums.as<float>()[0]) / micro_batch.loss_sums.as<float>()[1];
      };
      model.ClearGradients();
      run(true);
      const Tensor grad = head.BackwardInput(model.View(batch, true), kept, {}, {});
      const std::vector<float> grad_in(grad.as<float>(), grad.as<float>() + grad.count());
      std::vector<int> rows = model.table().OfModule(config.model.modules() - 1);
      if (tied) {
        rows.push_back(model.table().token_table());
      }
      for (const int row : rows) {
        ExpectDirections({.name = model.table().rows()[static_cast<std::size_t>(row)].name,
                          .values = model.weight(row),
                          .gradient = model.gradient(row),
                          .loss = [&] { return run(false); }});
      }
      ExpectDirections({.name = "input", .values = input, .gradient = grad_in, .loss = [&] { return run(false); }});
    });
  }
}

// Every module, site and sample has a mask of its own, and a sequence-parallel rank that of its own rows.
TEST(Dropout, EveryModuleSiteAndPlaceDrawsItsOwnMask) {
  ModelConfig model = OneRankRun("gpt2").model;
  model.dropout = 0.5;
  MicroBatch micro_batch{.first_sample = 5, .dropout_key = 7};
  std::set<std::uint64_t> keys;
  for (std::int64_t module = 0; module < 10; ++module) {
    for (const int site : {0, 1}) {
      keys.insert(DropoutOf(model, micro_batch, module, site, 0, 1).key);
    }
  }
  EXPECT_EQ(keys.size(), 20U);
  const std::int64_t sample = model.sequence * model.hidden;
  EXPECT_EQ(DropoutOf(model, micro_batch, 1, 0, 0, 1).first_element, 5 * sample);
  EXPECT_EQ(DropoutOf(model, micro_batch, 1, 0, 3, 1).first_element, 5 * sample + 3 * model.hidden);
  // A context rank's rows say where they stand.
  std::int32_t places[] = {4, 5, 0, 1};
  micro_batch.places = {places, DType::kInt32, {4}};
  const Dropout scattered = DropoutOf(model, micro_batch, 1, 0, 2, 2);
  EXPECT_EQ(scattered.first_element, 5 * sample);
  EXPECT_EQ(scattered.tokens.data, places + 2);
  EXPECT_EQ(scattered.tokens.shape, (Shape{2}));
  micro_batch.training = false;
  EXPECT_EQ(DropoutOf(model, micro_batch, 1, 0, 0, 1).probability, 0);
}

}  // namespace
}  // namespace trireme
