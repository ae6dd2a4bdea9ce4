// Every optimizer under tensor, pipeline and ZeRO layouts against its published formulas on whole parameters in double
// precision: one step from equal state, and fifty.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/random.h"
#include "comm/rank_runner.h"
#include "cost/step_cost.h"
#include "train/zero_shard.h"

namespace trireme::optimizers_test {
namespace {

constexpr double kRate = 0.01;
constexpr double kScale = 0.5;

RunConfig ConfigOf(const std::string& optimizer, const ParallelLayout& layout) {
  RunConfig config;
  config.model.family = "llama";
  config.model.layers = 2;
  config.model.hidden = 16;
  config.model.heads = 4;
  config.model.kv_heads = 4;
  config.model.ffn = 24;
  config.model.vocabulary = 21;  // padded to 24, and by two tensor ranks to 32
  config.model.sequence = 4;
  config.model.tie_embeddings = false;
  config.model = Completed(config.model, true);
  config.layout = layout;
  config.batch.global = 2 * layout.data;  // several micro batches: gradients have memory of their own
  config.optimizer.kind = FromWord<OptimizerKind>("optimizer", optimizer);
  config.optimizer.weight_decay = 0.2;
  config.optimizer.epsilon = 1e-3;
  config.optimizer.tables.rate = 0.5;
  config.optimizer.matrices.weight_decay = 0.1;
  config.optimizer.vectors.weight_decay = 0.05;
  config.train.device = "cpu";
  Validate(config, layout.ranks());
  return config;
}

float GradientAt(int row, std::int64_t index, int step) {
  return RandomUniform(static_cast<std::uint64_t>(row * 1000 + step), static_cast<std::uint64_t>(index)) - 0.45F;
}
float WeightAt(int row, std::int64_t index) {
  return static_cast<float>(0.2 * std::sin(row + 0.37 * static_cast<double>(index)));
}

using Matrix = std::vector<double>;  // row-major

// m x n times n x p, either transposed first.
Matrix Product(const Matrix& a, const Matrix& b, std::size_t m, std::size_t n, std::size_t p) {
  Matrix c(m * p);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t j = 0; j < p; ++j) {
        c[i * p + j] += a[i * n + k] * b[k * p + j];
      }
    }
  }
  return c;
}

Matrix Transposed(const Matrix& a, std::size_t rows, std::size_t columns) {
  Matrix t(a.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      t[j * rows + i] = a[i * columns + j];
    }
  }
  return t;
}

// As torch.optim.Muon does it: a tall matrix is transposed first.
Matrix Orthogonal(Matrix x, std::size_t rows, std::size_t columns) {
  if (rows > columns) {
    return Transposed(Orthogonal(Transposed(x, rows, columns), columns, rows), columns, rows);
  }
  double square = 0;
  for (const double value : x) {
    square += value * value;
  }
  for (double& value : x) {
    value /= std::max(std::sqrt(square), 1e-7);
  }
  for (int step = 0; step < 5; ++step) {
    const Matrix gram = Product(x, Transposed(x, rows, columns), rows, columns, rows);
    Matrix polynomial = Product(gram, gram, rows, rows, rows);
    for (std::size_t i = 0; i < gram.size(); ++i) {
      polynomial[i] = 2.0315 * polynomial[i] - 4.7750 * gram[i];
    }
    const Matrix product = Product(polynomial, x, rows, rows, columns);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = 3.4445 * x[i] + product[i];
    }
  }
  return x;
}

// One parameter, whole.
struct Reference {
  const Parameter& parameter;
  int row;
  std::string optimizer;
  double rate;
  double decay;
  Matrix weight = {}, first = {}, second = {}, rows = {}, columns = {};

  void Start() {
    const auto count = static_cast<std::size_t>(parameter.shape.count());
    for (std::size_t i = 0; i < count; ++i) {
      weight.push_back(WeightAt(row, static_cast<std::int64_t>(i)));
    }
    first.assign(count, 0);
    second.assign(count, 0);
  }

  void Apply(const Matrix& direction, double step_rate, double factor) {
    for (std::size_t i = 0; i < weight.size(); ++i) {
      weight[i] = weight[i] * (1 - step_rate * decay) - step_rate * factor * direction[i];
    }
  }

  void Adafactor(Matrix g, int step) {
    const double beta = 1 - std::pow(step, -0.8);
    if (parameter.shape.rank() == 2) {
      const auto height = static_cast<std::size_t>(parameter.shape[0]);
      const auto width = static_cast<std::size_t>(parameter.shape[1]);
      rows.resize(height);
      columns.resize(width);
      Matrix row_mean(height), column_mean(width);
      for (std::size_t i = 0; i < g.size(); ++i) {
        const double square = g[i] * g[i] + 1e-30;
        row_mean[i / width] += square / static_cast<double>(width);
        column_mean[i % width] += square / static_cast<double>(height);
      }
      double mean = 0;
      for (std::size_t i = 0; i < height; ++i) {
        rows[i] = beta * rows[i] + (1 - beta) * row_mean[i];
        mean += rows[i] / static_cast<double>(height);
      }
      for (std::size_t i = 0; i < width; ++i) {
        columns[i] = beta * columns[i] + (1 - beta) * column_mean[i];
      }
      for (std::size_t i = 0; i < g.size(); ++i) {
        g[i] /= std::sqrt(rows[i / width] / mean * columns[i % width]);
      }
    } else {
      for (std::size_t i = 0; i < g.size(); ++i) {
        second[i] = beta * second[i] + (1 - beta) * (g[i] * g[i] + 1e-30);
        g[i] /= std::sqrt(second[i]);
      }
    }
    double square = 0, weights = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      square += g[i] * g[i] / static_cast<double>(g.size());
      weights += weight[i] * weight[i] / static_cast<double>(g.size());
    }
    Apply(g, rate * std::max(1e-3, std::sqrt(weights)), 1 / std::max(1.0, std::sqrt(square)));
  }

  void AdamW(const Matrix& g, int step) {
    Matrix direction(g.size());
    for (std::size_t i = 0; i < g.size(); ++i) {
      first[i] = 0.9 * first[i] + 0.1 * g[i];
      second[i] = 0.95 * second[i] + 0.05 * g[i] * g[i];
      direction[i] = first[i] / (1 - std::pow(0.9, step)) / (std::sqrt(second[i] / (1 - std::pow(0.95, step))) + 1e-3);
    }
    Apply(direction, rate, 1);
  }

  void Step(int step) {
    Matrix g(weight.size());
    for (std::size_t i = 0; i < g.size(); ++i) {
      g[i] = kScale * GradientAt(row, static_cast<std::int64_t>(i), step);
    }
    const bool of_block = parameter.name.starts_with("block.") && parameter.shape.rank() == 2;
    Matrix direction(g.size());
    if (optimizer == "adafactor") {
      Adafactor(g, step);
    } else if (optimizer == "lion") {
      for (std::size_t i = 0; i < g.size(); ++i) {
        const double average = 0.9 * first[i] + 0.1 * g[i];
        direction[i] = average > 0 ? 1 : average < 0 ? -1 : 0;
        first[i] = 0.95 * first[i] + 0.05 * g[i];
      }
      Apply(direction, rate, 1);
    } else if (optimizer == "sgd") {
      for (std::size_t i = 0; i < g.size(); ++i) {
        const double decayed = g[i] + decay * weight[i];
        first[i] = 0.95 * first[i] + decayed;
        weight[i] -= rate * (decayed + 0.95 * first[i]);
      }
    } else if (optimizer == "muon" && of_block) {
      for (std::size_t i = 0; i < g.size(); ++i) {
        first[i] = 0.95 * first[i] + 0.05 * g[i];
        direction[i] = 0.05 * g[i] + 0.95 * first[i];
      }
      const auto height = static_cast<std::size_t>(parameter.shape[0]);
      const auto width = static_cast<std::size_t>(parameter.shape[1]);
      Apply(Orthogonal(direction, height, width), rate, 0.2 * std::sqrt(static_cast<double>(std::max(height, width))));
    } else {
      AdamW(g, step);
    }
  }
};

std::vector<Reference> Expected(const RunConfig& config, const ParameterTable& table, int steps) {
  std::vector<Reference> all;
  for (std::size_t row = 0; row < table.rows().size(); ++row) {
    const Parameter& parameter = table.rows()[row];
    const bool is_table = parameter.role == ParameterRole::kTokenTable;
    const bool vector = parameter.shape.rank() == 1;
    const bool head = parameter.name == "head.weight";
    Reference one{parameter, static_cast<int>(row), Name(config.optimizer.kind), is_table ? 0.5 * kRate : kRate,
                  vector             ? 0.05
                  : is_table || head ? 0.2
                                     : 0.1};
    one.Start();
    for (int step = 1; step <= steps; ++step) {
      one.Step(step);
    }
    all.push_back(one);
  }
  return all;
}

// One rank's part.
class Rank {
 public:
  Rank(const RunConfig& config, RankContext& context)
      : config_(config),
        comms_(context.world, config_.layout, config_.layout.pipeline - 1),
        stage_(config_, comms_.coordinate().pipeline, config_.batch.global),
        arena_(context.device, MemoryOfStage(stage_.description())),
        zero_(arena_, comms_, stage_.description().shards, table(), OptionsOf(config_, stage_.description())) {
    for (const OwnedState& state : zero_.JoinState()) {
      if (state.kind == StateKind::kMaster) {
        for (const SliceRun& run : state.runs) {
          for (std::int64_t i = 0; i < run.count; ++i) {
            state.values.as<float>()[run.local + i] = WeightAt(state.row, run.global + i);
          }
        }
      }
    }
    zero_.Publish();
    // Law 5 for memory: the plan is used up to the byte.
    EXPECT_EQ(arena_.used()[MemoryKind::kOptimizer], MemoryOfStage(stage_.description())[MemoryKind::kOptimizer]);
    EXPECT_EQ(arena_.used()[MemoryKind::kHost], MemoryOfStage(stage_.description())[MemoryKind::kHost]);
  }

  void Step(int step) {
    zero_.InvalidateMasters();
    zero_.BeginStep(false);
    for (std::int64_t module = 0; module < config_.model.modules(); ++module) {
      if (!Here(module)) {
        continue;
      }
      const ParameterUse use{.module = module, .own = true};
      zero_.Open(use);
      for (const int row : table().OfModule(module)) {
        const Tensor gradient = zero_.Gradient(row);
        // Padding of the vocabulary too: what a gradient holds before the first product is undefined.
        std::fill_n(gradient.as<float>(), gradient.count(), 0.0F);
        for (const SliceRun& run : Runs(row)) {
          for (std::int64_t i = 0; i < run.count; ++i) {
            // Only the last data rank adds: sums of ranks are other tests' matter.
            gradient.as<float>()[run.local + i] =
                comms_.coordinate().data == config_.layout.data - 1 ? GradientAt(row, run.global + i, step) : 0.0F;
          }
        }
      }
      zero_.Finish(use, true);
    }
    zero_.FinishGradients();
    zero_.Update(static_cast<float>(kRate), static_cast<float>(kScale), step);
  }

  // The largest difference of a parameter, relative to its largest element.
  std::map<std::string, double> Errors(const std::vector<Reference>& expected) {
    std::map<std::string, double> errors;
    for (std::int64_t module = 0; module < config_.model.modules(); ++module) {
      if (!Here(module)) {
        continue;
      }
      const ParameterUse use{.module = module, .own = true};
      zero_.Gather(use);
      for (const int row : table().OfModule(module)) {
        const Matrix& whole = expected[static_cast<std::size_t>(row)].weight;
        const double largest = std::abs(*std::max_element(
            whole.begin(), whole.end(), [](double a, double b) { return std::abs(a) < std::abs(b); }));
        const Tensor weight = zero_.Get(row);
        double& error = errors[table().rows()[static_cast<std::size_t>(row)].name];
        for (const SliceRun& run : Runs(row)) {
          for (std::int64_t i = 0; i < run.count; ++i) {
            const double off = weight.as<float>()[run.local + i] - whole[static_cast<std::size_t>(run.global + i)];
            error = std::max(error, std::abs(off) / largest);
          }
        }
      }
      zero_.Release(use);
    }
    return errors;
  }

  const ParameterTable& table() const { return stage_.table(); }

 private:
  static ZeroShard::Options OptionsOf(const RunConfig& config, const StageDescription& stage) {
    const OptimizerConfig& optimizer = config.optimizer;
    return {.zero = config.layout.zero,
            .optimizer = {.beta1 = static_cast<float>(optimizer.beta1),
                          .beta2 = static_cast<float>(optimizer.beta2),
                          .epsilon = static_cast<float>(optimizer.epsilon),
                          .momentum = static_cast<float>(optimizer.momentum),
                          .nesterov = optimizer.nesterov,
                          .host_piece =
                              config.layout.offload == Offload::kNone ? 0 : HostPiece(stage.shards, config.layout.zero),
                          .host_weights = config.layout.offload == Offload::kFull},
            .plan = &stage.optimizer};
  }
  bool Here(std::int64_t module) const {
    return stage_.description().partition.Range(comms_.coordinate().pipeline).Contains(module);
  }
  std::vector<SliceRun> Runs(int row) const {
    return SliceRuns(table().rows()[static_cast<std::size_t>(row)], config_.layout.tensor, comms_.coordinate().tensor);
  }

  RunConfig config_;
  GridComms comms_;
  StageOfRun stage_;
  Arena arena_;
  ZeroShard zero_;
};

void ExpectReference(const std::string& optimizer, const ParallelLayout& layout, int steps, double tolerance) {
  SCOPED_TRACE(fmt::format("{}, {}, {} steps", optimizer, layout.ToString(), steps));
  const RunConfig config = ConfigOf(optimizer, layout);
  const ParameterTable table(config.model);
  const std::vector<Reference> expected = Expected(config, table, steps);
  std::mutex mutex;
  RunThreadRanks(layout.ranks(), {.kind = "cpu"}, [&](RankContext& context) {
    Rank rank(config, context);
    for (int step = 1; step <= steps; ++step) {
      rank.Step(step);
    }
    const std::map<std::string, double> errors = rank.Errors(expected);
    const std::scoped_lock lock(mutex);
    for (const auto& [name, error] : errors) {
      EXPECT_LE(error, tolerance) << name << ", rank " << context.world.rank();
    }
  });
}

class Optimizers : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Optimizers, testing::Values("adamw", "sgd", "lion", "adafactor", "muon"),
                         [](const auto& name) { return name.param; });

TEST_P(Optimizers, OneStepIsTheFormula) { ExpectReference(GetParam(), {}, 1, 1e-6); }

TEST_P(Optimizers, FiftyStepsAreTheFormula) { ExpectReference(GetParam(), {}, 50, 1e-3); }

TEST_P(Optimizers, EveryLayoutTakesTheSameStep) {
  for (const ParallelLayout& layout :
       {ParallelLayout{.data = 2, .zero = 0}, ParallelLayout{.data = 3, .zero = 1},
        ParallelLayout{.data = 2, .zero = 2}, ParallelLayout{.tensor = 2, .data = 2, .zero = 3},
        ParallelLayout{.tensor = 4}, ParallelLayout{.tensor = 2, .pipeline = 2, .data = 2, .zero = 1},
        ParallelLayout{.tensor = 2, .data = 2, .zero = 0}}) {
    ExpectReference(GetParam(), layout, 3, 2e-6);
  }
}

TEST_P(Optimizers, StateInHostMemoryTakesTheSameStep) {
  ExpectReference(GetParam(), {.data = 2, .zero = 1, .offload = Offload::kOptimizer}, 2, 2e-6);
  if (GetParam() != "adafactor") {
    ExpectReference(GetParam(), {.tensor = 2, .data = 2, .zero = 3, .offload = Offload::kFull}, 2, 2e-6);
  }
}

// Each matrix has one owner, and no rank more than its share and one matrix.
TEST(MuonPlan, OwnersShareTheFlops) {
  const RunConfig config = ConfigOf("muon", {.tensor = 2, .data = 3, .zero = 1});
  const StageOfRun stage(config, 0, config.batch.global);
  const OptimizerPlan& plan = stage.description().optimizer;
  ASSERT_EQ(plan.matrices.matrices.size(), 8U);  // two blocks of four
  std::int64_t all = 0;
  std::int64_t largest = 0;
  for (const OwnedMatrix& matrix : plan.matrices.matrices) {
    const std::int64_t flops = NewtonSchulzFlops(matrix.rows, matrix.columns, plan.matrices.iterations);
    all += flops;
    largest = std::max(largest, flops);
  }
  std::int64_t sum = 0;
  for (int data = 0; data < 3; ++data) {
    for (int tensor = 0; tensor < 2; ++tensor) {
      sum += plan.Flops(data, tensor);
      EXPECT_LE(plan.Flops(data, tensor), all / 6 + largest);
    }
  }
  EXPECT_EQ(sum, all);
}

}  // namespace
}  // namespace trireme::optimizers_test
