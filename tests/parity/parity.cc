#include "parity/parity.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>
#include <string_view>

#include "base/error.h"
#include "comm/rank_runner.h"
#include "family_features.h"
#include "operate/training_loop.h"

namespace trireme::parity {
namespace {

// Copies a rank's slices into the whole parameters; the second owner of a tied table compares instead.
void CollectParameters(Trainer& trainer, std::mutex& mutex, Outcome& outcome) {
  const ParameterTable& table = trainer.table();
  const int tensor = trainer.config().layout.tensor;
  for (std::size_t row = 0; row < table.rows().size(); ++row) {
    if (!trainer.parts().HoldsRow(static_cast<int>(row))) {
      continue;
    }
    const Parameter& parameter = table.rows()[row];
    const std::vector<float> slice = trainer.parts().WeightOnHost(static_cast<int>(row));
    const std::scoped_lock lock(mutex);
    auto& whole = outcome.parameters[parameter.name];
    whole.resize(static_cast<std::size_t>(parameter.shape.count()), std::nanf(""));
    for (const SliceRun& run : SliceRuns(parameter, tensor, trainer.coordinate().tensor)) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        float& to = whole[static_cast<std::size_t>(run.global + i)];
        const float from = slice[static_cast<std::size_t>(run.local + i)];
        if (!std::isnan(to) && to != from) {
          outcome.tied_copies_equal = false;  // replicas of any kind: tensor, data, the other end of the pipeline
          outcome.differing_copy = parameter.name;
        }
        to = from;
      }
    }
  }
}

void CompareAccounting(const StepCost& predicted, const StepCost& counted, int rank, std::vector<std::string>& lines) {
  const auto differ = [&](const std::string& what, std::int64_t expected, std::int64_t actual) {
    if (expected != actual) {
      lines.push_back(fmt::format("rank {}: {}: predicted {}, counted {}", rank, what, expected, actual));
    }
  };
  differ("matmul FLOPs", predicted.flops.matmul, counted.flops.matmul);
  differ("attention FLOPs", predicted.flops.attention, counted.flops.attention);
  differ("update FLOPs", predicted.flops.update, counted.flops.update);
  differ("recomputed FLOPs", predicted.flops.recomputed, counted.flops.recomputed);
  for (int kind = 0; kind < kMemoryKinds; ++kind) {
    const auto memory = static_cast<MemoryKind>(kind);
    differ(std::string(Name(memory)) + " bytes", predicted.memory[memory], counted.memory[memory]);
  }
  for (int group = 0; group < kGroupKinds; ++group) {
    for (int kind = 0; kind < kCollectiveKinds; ++kind) {
      const auto g = static_cast<std::size_t>(group);
      const auto k = static_cast<std::size_t>(kind);
      const std::string what =
          fmt::format("{} {}", Name(static_cast<GroupKind>(group)), Name(static_cast<CollectiveKind>(kind)));
      differ(what + " calls", predicted.traffic[g].calls[k], counted.traffic[g].calls[k]);
      differ(what + " bytes", predicted.traffic[g].bytes[k], counted.traffic[g].bytes[k]);
    }
  }
}

// One step's counters against cost's prediction.
StepResult AccountedStep(Trainer& trainer, std::mutex& mutex, Outcome& outcome) {
  const StepCost before = trainer.parts().Counted();
  const StepResult result = trainer.Step();
  StepCost counted = trainer.parts().Counted();
  counted.flops.matmul -= before.flops.matmul;
  counted.flops.attention -= before.flops.attention;
  counted.flops.recomputed -= before.flops.recomputed;
  counted.flops.update -= before.flops.update;
  for (std::size_t group = 0; group < counted.traffic.size(); ++group) {
    counted.traffic[group] = counted.traffic[group] - before.traffic[group];
  }
  const StepCost predicted = trainer.parts().Predicted(result.global_batch);
  const std::scoped_lock lock(mutex);
  CompareAccounting(predicted, counted, trainer.world().rank(), outcome.accounting);
  return result;
}

double RelativeDifference(double expected, double actual) {
  return std::abs(expected - actual) / std::max(std::abs(expected), 1e-30);
}

}  // namespace

int LawSteps() {
  const char* steps = std::getenv("TRIREME_LAW_STEPS");
  return steps == nullptr ? 20 : std::atoi(steps);
}

RunConfig SmallRun(const std::string& family) {
  RunConfig config;
  config.model.family = family;
  config.model.layers = 4;
  config.model.hidden = 48;
  config.model.heads = 12;
  config.model.ffn = 96;
  config.model.vocabulary = 90;
  config.model.sequence = 12;
  if (family == "llama") {
    config.model.kv_heads = 12;
  }
  UseFeatures(config.model);
  config.model = Completed(config.model);
  config.batch.global = 12;
  config.layout.micro_batch = 1;
  config.optimizer.schedule = RateSchedule::kConstant;
  config.optimizer.learning_rate = 2e-3;
  config.optimizer.epsilon = 1e-3;  // keeps an update smooth where a gradient is noise around zero
  config.train.steps = LawSteps();
  config.validation.samples = 24;
  config.train.device = "cpu";
  const char* const graphs = std::getenv("TRIREME_TEST_GRAPHS");
  config.train.graphs = graphs == nullptr || std::string_view(graphs) != "off";
  return config;
}

bool TestsUseGpu() {
  const char* const device = std::getenv("TRIREME_TEST_DEVICE");
  return device != nullptr && std::string_view(device) != "cpu";
}

RunConfig OneRank(const RunConfig& config) {
  RunConfig one = config;
  const int micro_batch = one.layout.micro_batch;
  one.layout = ParallelLayout{};
  one.layout.micro_batch = micro_batch;
  return one;
}

Outcome Train(const Experiment& experiment) {
  const RunConfig& config = experiment.config;
  Validate(config, config.layout.ranks());
  const std::unique_ptr<SampleSource> train = OpenRunSource(config, "train");
  const std::unique_ptr<SampleSource> validation = OpenRunSource(config, "validation");
  const char* device = std::getenv("TRIREME_TEST_DEVICE");
  Outcome outcome;
  std::mutex mutex;
  RunThreadRanks(config.layout.ranks(),
                 {.kind = device == nullptr ? "cpu" : device, .deterministic = config.train.deterministic},
                 [&](RankContext& context) {
                   Trainer trainer(config, context, {.train = train.get(), .validation = validation.get()});
                   if (!experiment.keeps_packed_weights) {
                     context.device.set_spare_bytes(0);
                   }
                   const bool speaks = context.world.rank() == 0;
                   for (int step = 0; step < experiment.steps; ++step) {
                     const StepResult result = step == 0 ? AccountedStep(trainer, mutex, outcome) : trainer.Step();
                     if (speaks) {
                       outcome.losses.push_back(result.loss);
                       outcome.gradient_norms.push_back(result.gradient_norm);
                     }
                   }
                   if (experiment.validate) {
                     const double loss = trainer.Validate().value();
                     if (speaks) {
                       outcome.validation = loss;
                     }
                   }
                   CollectParameters(trainer, mutex, outcome);
                 });
  return outcome;
}

std::vector<std::string> Differences(const Outcome& expected, const Outcome& actual, double tolerance) {
  std::vector<std::string> found = actual.accounting;
  if (!actual.tied_copies_equal) {
    found.push_back("copies of one parameter differ: " + actual.differing_copy);
  }
  if (expected.losses.size() != actual.losses.size() || expected.parameters.size() != actual.parameters.size()) {
    found.emplace_back("another number of steps or parameters");
    return found;
  }
  const auto compare = [&](const std::string& what, double one, double many, double bound) {
    if (!(RelativeDifference(one, many) <= bound)) {
      found.push_back(fmt::format("{}: {:.9g}, one rank {:.9g}", what, many, one));
    }
  };
  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    compare(fmt::format("loss of step {}", step + 1), expected.losses[step], actual.losses[step], tolerance);
    compare(fmt::format("gradient norm of step {}", step + 1), expected.gradient_norms[step],
            actual.gradient_norms[step], 10 * tolerance);
  }
  for (const auto& [name, values] : expected.parameters) {
    const auto& others = actual.parameters.at(name);
    double square = 0;
    double difference = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      square += static_cast<double>(values[i]) * values[i];
      difference += std::pow(static_cast<double>(values[i]) - others[i], 2);
    }
    // Gains are near one; some families keep the distance from one, whose own size says nothing.
    const double least = name.ends_with(".gain") ? std::sqrt(static_cast<double>(values.size())) : 1e-3;
    if (!(std::sqrt(difference) <= tolerance * std::max(std::sqrt(square), least))) {
      found.push_back(fmt::format("{}: differs by {:.3g} of {:.3g}", name, std::sqrt(difference), std::sqrt(square)));
    }
  }
  return found;
}

void ExpectSame(const Outcome& expected, const Outcome& actual, double tolerance) {
  EXPECT_THAT(Differences(expected, actual, tolerance), testing::IsEmpty());
}

void ExpectLaw(const RunConfig& config, double tolerance) {
  static std::mutex mutex;
  static std::map<std::string, Outcome> known;
  const RunConfig one = OneRank(config);
  const std::string key = ToToml(one);
  const Outcome* expected = nullptr;
  {
    const std::scoped_lock lock(mutex);
    const auto [place, inserted] = known.try_emplace(key);
    if (inserted) {
      place->second = Train({.config = one, .steps = static_cast<int>(config.train.steps), .validate = true});
    }
    expected = &place->second;
  }
  const Outcome actual = Train({.config = config, .steps = static_cast<int>(config.train.steps), .validate = true});
  ExpectSame(*expected, actual, tolerance);
  EXPECT_LE(RelativeDifference(expected->validation, actual.validation), tolerance) << "validation loss";
}

}  // namespace trireme::parity
