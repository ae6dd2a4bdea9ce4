// ZeRO stages against a serial account: what every data, tensor and pipeline rank adds to a gradient, summed here, and
// AdamW in double precision.
#include "train/zero_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "base/random.h"
#include "comm/rank_runner.h"
#include "cost/step_cost.h"

namespace trireme {
namespace {

constexpr int kMicroBatches = 2;
constexpr int kSteps = 2;
constexpr float kRate = 0.01F;
constexpr float kScale = 0.5F;  // of gradients, as clipping gives
constexpr OptimizerOptions kOptimizer = {.beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-3F, .weight_decay = 0.3F};

RunConfig ConfigOf(const ParallelLayout& layout, bool tied) {
  RunConfig config;
  config.model.layers = 4;
  config.model.hidden = 8;
  config.model.heads = 2;
  config.model.ffn = 12;
  config.model.vocabulary = 21;  // padded to 24, and by two tensor ranks to 32
  config.model.sequence = 4;
  config.model.tie_embeddings = tied;
  config.model = Completed(config.model, true);
  config.layout = layout;
  config.layout.micro_batch = 1;
  config.batch.global = kMicroBatches * layout.data;
  config.train.device = "cpu";
  Validate(config, layout.ranks());
  return config;
}

// What one piece of work adds to element `index` of a parameter. `part`: the tensor rank where each sees its own
// tokens.
struct Source {
  int step = 0;
  int micro_batch = 0;
  int data = 0;
  int part = 0;
  bool head = false;
};
float Added(int row, std::int64_t index, const Source& from) {
  const int place = (((from.step * 8 + from.micro_batch) * 8 + from.data) * 8 + from.part) * 2 + (from.head ? 1 : 0);
  return RandomUniform(static_cast<std::uint64_t>(row * 100'000 + place), static_cast<std::uint64_t>(index)) - 0.5F;
}

bool PartsDiffer(const Parameter& parameter, const ParallelLayout& layout) {
  return parameter.split.replicated() && layout.sequence_parallel && layout.tensor > 1;
}

double FirstWeight(int row, std::int64_t index) { return std::sin(row + 0.01 * static_cast<double>(index)); }

// Whether ZeRO 3 keeps a parameter whole.
bool IsWhole(const Parameter& parameter, const ParallelLayout& layout) {
  return ZeroShards(layout.zero).parameters && LocalShape(parameter, layout.tensor).count() < layout.whole_below;
}

// What arrives of numbers that are sent as `sent`, an untied parameter's whole slice: int8 blocks begin with it.
std::vector<float> Arrived(std::vector<float> values, WireFormat sent) {
  constexpr std::size_t kBlock = 64;
  for (std::size_t first = 0; sent == WireFormat::kInt8 && first < values.size(); first += kBlock) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = values.begin() + static_cast<std::ptrdiff_t>(std::min(first + kBlock, values.size()));
    float largest = 0;
    std::for_each(begin, end, [&](float value) { largest = std::max(largest, std::abs(value)); });
    std::for_each(begin, end, [&](float& value) {
      value = largest == 0 ? 0 : std::nearbyint(value * (127 / largest)) * (largest / 127);
    });
  }
  for (std::size_t i = 0; sent == WireFormat::kBFloat16 && i < values.size(); ++i) {
    values[i] = static_cast<float>(BFloat16(values[i]));
  }
  return values;
}

// What data ranks make of an untied parameter's gradient that they send in fewer bits: each rounds its own sum, stages
// 2 and 3 that of each micro batch; the parts are summed in fp32 in the order of the ranks. A bf16 sum is rounded once
// more, and int8 sums where stage 0 gathers them.
std::vector<double> SumOfSent(const Parameter& parameter, int row, int step, const ParallelLayout& layout) {
  const auto count = static_cast<std::size_t>(parameter.shape.count());
  const bool each = ZeroShards(layout.zero).gradients && !IsWhole(parameter, layout);
  const bool again = layout.reduce == WireFormat::kBFloat16 || !ZeroShards(layout.zero).optimizer;
  std::vector<float> total(count);
  for (int first = 0; first < kMicroBatches; first += each ? 1 : kMicroBatches) {
    std::vector<float> sum(count);
    for (int data = 0; data < layout.data; ++data) {
      std::vector<float> own(count);
      for (std::size_t i = 0; i < count; ++i) {
        for (int micro_batch = first; micro_batch < (each ? first + 1 : kMicroBatches); ++micro_batch) {
          own[i] += Added(row, static_cast<std::int64_t>(i), {step, micro_batch, data, 0, false});
        }
      }
      const std::vector<float> part = Arrived(own, layout.reduce);
      std::transform(sum.begin(), sum.end(), part.begin(), sum.begin(), std::plus<>());
    }
    sum = again ? Arrived(sum, layout.reduce) : sum;
    std::transform(total.begin(), total.end(), sum.begin(), total.begin(), std::plus<>());
  }
  return {total.begin(), total.end()};
}

// A parameter's gradients and weights of each step, as one process would have them.
struct Serial {
  std::vector<std::vector<double>> gradients;  // by step
  std::vector<double> weights;                 // after the last
};
Serial SerialOf(const ParameterTable& table, int row, const ParallelLayout& layout) {
  const Parameter& parameter = table.rows()[static_cast<std::size_t>(row)];
  Serial serial;
  const auto count = static_cast<std::size_t>(parameter.shape.count());
  std::vector<double> first(count);
  std::vector<double> second(count);
  for (std::size_t i = 0; i < count; ++i) {
    serial.weights.push_back(static_cast<float>(FirstWeight(row, static_cast<std::int64_t>(i))));
  }
  for (int step = 0; step < kSteps; ++step) {
    std::vector<double>& gradient = serial.gradients.emplace_back(count);
    const std::vector<double> sent =
        layout.reduced_as() == WireFormat::kExact ? std::vector<double>() : SumOfSent(parameter, row, step, layout);
    const double lasting = parameter.decays ? 1 - static_cast<double>(kRate) * kOptimizer.weight_decay : 1;
    for (std::size_t i = 0; i < count; ++i) {
      for (int micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
        for (int data = 0; data < layout.data; ++data) {
          for (int part = 0; part < (PartsDiffer(parameter, layout) ? layout.tensor : 1); ++part) {
            for (const bool head : {false, true}) {
              if (!head || table.Tied(row)) {
                gradient[i] += Added(row, static_cast<std::int64_t>(i), {step, micro_batch, data, part, head});
              }
            }
          }
        }
      }
      if (layout.reduced_as() != WireFormat::kExact) {
        gradient[i] = sent[i];
      }
      const double scaled = gradient[i] * kScale;
      first[i] = kOptimizer.beta1 * first[i] + (1 - kOptimizer.beta1) * scaled;
      second[i] = kOptimizer.beta2 * second[i] + (1 - kOptimizer.beta2) * scaled * scaled;
      const double m = first[i] / (1 - std::pow(kOptimizer.beta1, step + 1));
      const double v = second[i] / (1 - std::pow(kOptimizer.beta2, step + 1));
      serial.weights[i] = serial.weights[i] * lasting - kRate * m / (std::sqrt(v) + kOptimizer.epsilon);
    }
  }
  return serial;
}

// One rank's part of the test.
class Rank {
 public:
  Rank(const RunConfig& config, RankContext& context)
      : config_(config),
        comms_(context.world, config_.layout, config_.layout.pipeline - 1),
        stage_(config_, comms_.coordinate().pipeline, config_.batch.global),
        arena_(context.device, MemoryOfStage(stage_.description())),
        zero_(arena_, comms_, stage_.description().shards, table(),
              {.zero = config_.layout.zero,
               .sequence_parallel = config_.layout.sequence_parallel,
               .optimizer = kOptimizer,
               .reduce = config_.layout.reduced_as(),
               .gather = config_.layout.gathered_as(),
               .reuses_weights = true}) {
    for (const OwnedState& state : zero_.JoinState()) {
      if (state.kind == StateKind::kMaster) {
        for (const SliceRun& run : state.runs) {
          for (std::int64_t i = 0; i < run.count; ++i) {
            state.values.as<float>()[run.local + i] = static_cast<float>(FirstWeight(state.row, run.global + i));
          }
        }
      }
    }
    zero_.Publish();
  }

  // Gradients of a step, and their counted squares.
  double Accumulate(int step) {
    zero_.InvalidateMasters();
    zero_.BeginStep(false);
    for (int micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
      for (std::int64_t module = 0; module < config_.model.modules(); ++module) {
        AddModule(module, {.step = step, .micro_batch = micro_batch, .data = comms_.coordinate().data});
      }
    }
    zero_.FinishGradients();
    double square = 0;
    for (const Tensor& range : zero_.counted_gradients()) {
      for (std::int64_t i = 0; i < range.count(); ++i) {
        square += std::pow(range.as<float>()[i], 2);
      }
    }
    return square;
  }
  void Update(int step) { zero_.Update(kRate, kScale, step + 1); }

  void ExpectWeights(const std::map<int, Serial>& expected, double tolerance = 2e-6) {
    for (std::int64_t module = 0; module < config_.model.modules(); ++module) {
      const ParameterUse use = UseOf(module);
      if (!use.any()) {
        continue;
      }
      zero_.Gather(use);
      for (const int row : RowsOf(use)) {
        const Parameter& parameter = table().rows()[static_cast<std::size_t>(row)];
        const Tensor weight = zero_.Get(row);
        for (const SliceRun& run : SliceRuns(parameter, config_.layout.tensor, comms_.coordinate().tensor)) {
          for (std::int64_t i = 0; i < run.count; ++i) {
            ASSERT_NEAR(weight.as<float>()[run.local + i],
                        expected.at(row).weights[static_cast<std::size_t>(run.global + i)], tolerance)
                << parameter.name << ", element " << run.global + i;
          }
        }
      }
      zero_.Release(use);
    }
  }
  // How often each element is saved, by (row, kind).
  void CountSaved(std::map<std::pair<int, StateKind>, std::vector<int>>& counts) {
    for (const OwnedState& state : zero_.JoinState()) {
      std::vector<int>& count = counts[{state.row, state.kind}];
      count.resize(static_cast<std::size_t>(table().rows()[static_cast<std::size_t>(state.row)].shape.count()));
      for (const SliceRun& run : state.runs) {
        for (std::int64_t i = 0; state.saved && i < run.count; ++i) {
          ++count[static_cast<std::size_t>(run.global + i)];
        }
      }
    }
  }
  // Each change of the weights has a version of its own, or 0 where they are gathered for each use.
  void ExpectVersions(bool gathered) {
    constexpr int kRow = 0;
    std::set<std::int64_t> seen{zero_.Version(kRow)};
    Accumulate(0);
    EXPECT_TRUE(seen.contains(zero_.Version(kRow)));
    Update(0);
    seen.insert(zero_.Version(kRow));
    zero_.JoinState();
    zero_.Publish();
    seen.insert(zero_.Version(kRow));
    zero_.Live();
    seen.insert(zero_.Version(kRow));
    EXPECT_EQ(seen.size(), gathered ? 1 : 4);
    EXPECT_EQ(seen.contains(0), gathered);
  }
  const ParameterTable& table() const { return stage_.table(); }

 private:
  // What a module of this stage uses; nothing where it is another's.
  ParameterUse UseOf(std::int64_t module) const {
    const ModuleRange range = stage_.description().partition.Range(comms_.coordinate().pipeline);
    const bool here = range.Contains(module);
    const bool end = module == 0 || module == config_.model.modules() - 1;
    return {.module = module, .own = here, .tied = here && end && config_.model.tie_embeddings};
  }
  std::vector<int> RowsOf(const ParameterUse& use) const {
    std::vector<int> rows;
    for (const int row : table().OfModule(use.module)) {
      if (!table().Tied(row)) {
        rows.push_back(row);
      }
    }
    if (use.tied) {
      rows.push_back(table().token_table());
    }
    return rows;
  }
  void AddModule(std::int64_t module, Source from) {
    const ParameterUse use = UseOf(module);
    if (!use.any()) {
      return;
    }
    zero_.Open(use);
    for (const int row : RowsOf(use)) {
      const Parameter& parameter = table().rows()[static_cast<std::size_t>(row)];
      from.part = PartsDiffer(parameter, config_.layout) ? comms_.coordinate().tensor : 0;
      from.head = module > 0 && table().Tied(row);
      const Tensor gradient = zero_.Gradient(row);
      if (module > 0 && zero_.Untouched(row, false)) {
        std::fill_n(gradient.as<float>(), gradient.count(), 0.0F);  // padding of the vocabulary, too
      }
      for (const SliceRun& run : SliceRuns(parameter, config_.layout.tensor, comms_.coordinate().tensor)) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          gradient.as<float>()[run.local + i] += Added(row, run.global + i, from);
        }
      }
    }
    zero_.Finish(use, from.micro_batch == kMicroBatches - 1);
  }

  RunConfig config_;
  GridComms comms_;
  StageOfRun stage_;
  Arena arena_;
  ZeroShard zero_;
};

void ExpectSerial(const ParallelLayout& layout, bool tied) {
  SCOPED_TRACE(layout.ToString() + (tied ? ", tied" : ", untied"));
  const RunConfig config = ConfigOf(layout, tied);
  const ParameterTable table(config.model);
  std::map<int, Serial> expected;
  std::vector<double> norms(kSteps);
  for (std::size_t row = 0; row < table.rows().size(); ++row) {
    const Serial& serial = expected[static_cast<int>(row)] = SerialOf(table, static_cast<int>(row), layout);
    for (int step = 0; step < kSteps; ++step) {
      for (const double one : serial.gradients[static_cast<std::size_t>(step)]) {
        norms[static_cast<std::size_t>(step)] += one * one;
      }
    }
  }
  std::mutex mutex;
  std::vector<double> counted(kSteps);
  std::map<std::pair<int, StateKind>, std::vector<int>> saved;
  RunThreadRanks(layout.ranks(), {.kind = "cpu"}, [&](RankContext& context) {
    Rank rank(config, context);
    for (int step = 0; step < kSteps; ++step) {
      const double square = rank.Accumulate(step);
      {
        const std::scoped_lock lock(mutex);
        counted[static_cast<std::size_t>(step)] += square;
      }
      rank.Update(step);
    }
    rank.ExpectWeights(expected);
    const std::scoped_lock lock(mutex);
    rank.CountSaved(saved);
  });
  for (int step = 0; step < kSteps; ++step) {
    const auto i = static_cast<std::size_t>(step);
    EXPECT_NEAR(counted[i], norms[i], (layout.reduced_as() != WireFormat::kExact ? 1e-9 : 1e-5) * norms[i])
        << "squared norm of step " << step + 1;
  }
  EXPECT_EQ(saved.size(), table.rows().size() * 3);
  for (const auto& [key, counts] : saved) {
    EXPECT_THAT(counts, testing::Each(1)) << table.rows()[static_cast<std::size_t>(key.first)].name;
  }
}

class ZeroStage : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(ZeroShard, ZeroStage, testing::Range(0, 4));

TEST_P(ZeroStage, DataRanksAddUpAndUpdateAsOneProcess) {
  for (const int data : {1, 2, 3}) {
    for (const bool tied : {false, true}) {
      ExpectSerial({.data = data, .zero = GetParam()}, tied);
    }
  }
}

TEST_P(ZeroStage, EachChangeOfWeightsHasAVersion) {
  const ParallelLayout layout{.data = 2, .zero = GetParam()};
  RunThreadRanks(layout.ranks(), {.kind = "cpu"}, [&](RankContext& context) {
    Rank(ConfigOf(layout, false), context).ExpectVersions(layout.zero == 3);
  });
}

TEST_P(ZeroStage, GradientsSentInFewerBitsAreThoseOfASerialEmulation) {
  for (const WireFormat sent : {WireFormat::kBFloat16, WireFormat::kInt8}) {
    for (const int data : {1, 2, 3}) {
      ExpectSerial({.data = data, .zero = GetParam(), .reduce = sent}, false);
    }
  }
}

TEST(ZeroShard, KeepsParametersWholeBelowASize) {
  for (const std::int64_t whole_below : {9, 65, 97, 1000}) {  // vectors, matrices too, blocks, everything
    for (const bool tied : {false, true}) {
      ExpectSerial({.data = 3, .zero = 3, .whole_below = whole_below}, tied);
      ExpectSerial({.tensor = 2, .data = 2, .zero = 3, .sequence_parallel = true, .whole_below = whole_below}, tied);
    }
    for (const WireFormat sent : {WireFormat::kBFloat16, WireFormat::kInt8}) {
      ExpectSerial({.data = 2, .zero = 3, .whole_below = whole_below, .reduce = sent}, false);
    }
  }
}

// Whole parameters are never rounded.
TEST(ZeroShard, WeightsGatheredInFewerBitsAreThoseOfASerialEmulation) {
  for (const WireFormat sent : {WireFormat::kBFloat16, WireFormat::kInt8}) {
    for (const int data : {1, 2, 3}) {
      for (const std::int64_t whole_below : {0, 9}) {
        const ParallelLayout layout{.data = data, .zero = 3, .whole_below = whole_below, .gather = sent};
        SCOPED_TRACE(layout.ToString());
        const RunConfig config = ConfigOf(layout, false);
        const ParameterTable table(config.model);
        std::map<int, Serial> expected;
        for (std::size_t row = 0; row < table.rows().size(); ++row) {
          const Parameter& parameter = table.rows()[row];
          std::vector<float> weights;
          for (std::int64_t i = 0; i < parameter.shape.count(); ++i) {
            weights.push_back(static_cast<float>(FirstWeight(static_cast<int>(row), i)));
          }
          const bool exact = data == 1 || IsWhole(parameter, layout);
          weights = Arrived(weights, exact ? WireFormat::kExact : sent);
          expected[static_cast<int>(row)].weights = {weights.begin(), weights.end()};
        }
        RunThreadRanks(layout.ranks(), {.kind = "cpu"}, [&](RankContext& context) {
          Rank rank(config, context);
          rank.ExpectWeights(expected, 0);
        });
      }
    }
  }
}

TEST_P(ZeroStage, TensorRanksCountReplicatedParametersOnce) {
  for (const bool sequence_parallel : {false, true}) {
    ExpectSerial({.tensor = 2, .data = 2, .zero = GetParam(), .sequence_parallel = sequence_parallel}, true);
  }
}

TEST_P(ZeroStage, ATiedTableOnTwoStagesIsOneTable) {
  ExpectSerial({.pipeline = 2, .data = 2, .zero = GetParam()}, true);
  ExpectSerial({.pipeline = 4, .data = 1, .zero = GetParam()}, true);
  ExpectSerial({.tensor = 2, .pipeline = 2, .data = 1, .zero = GetParam(), .sequence_parallel = true}, true);
}

}  // namespace
}  // namespace trireme
