#include "compositions/composition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "parity/layout_space.h"
#include "parity/parity.h"

namespace trireme::compositions {
namespace {

std::uint64_t Below(std::uint64_t seed, const std::string& what, std::uint64_t bound) {
  return RandomBelow(RandomKey(seed, what), 0, bound);
}

double Share(std::uint64_t seed, const std::string& what) {
  constexpr std::uint64_t kParts = 1 << 20;
  return static_cast<double>(Below(seed, what, kParts)) / static_cast<double>(kParts);
}

// A layout that another draw has, where it can train this model and batch.
ParallelLayout DrawLayout(const RunConfig& config, std::uint64_t seed, const std::string& what) {
  RunConfig changed = config;
  for (std::uint64_t attempt = 0; attempt < 100; ++attempt) {
    changed.layout = parity::RandomConfig(1 + Below(seed + attempt, what, 100'000)).layout;
    // What decides about the order of sums of a step, and what only some models can cut.
    changed.layout.micro_batch = 1;
    if (IsValid(changed)) {
      return changed.layout;
    }
  }
  return parity::OneRank(config).layout;
}

// The axes of a layout, as settings of a stage.
std::vector<std::string> AxesOf(const ParallelLayout& layout) {
  const auto set = [](const char* key, const auto& value) { return fmt::format("layout.{}={}", key, value); };
  return {set("tensor", layout.tensor),
          set("pipeline", layout.pipeline),
          set("data", layout.data),
          set("context", 1),
          set("ulysses", 0),
          set("schedule", layout.schedule),
          set("chunks", layout.chunks),
          set("zero", layout.zero),
          set("shard_ranks", 0),
          set("sequence_parallel", layout.sequence_parallel),
          set("micro_batch", layout.micro_batch)};
}

// A first stage under another layout.
void AddStages(RunConfig& config, std::uint64_t seed) {
  const std::vector<std::string> axes = AxesOf(DrawLayout(config, seed, "first stage"));
  try {
    Validate(ParseRecipe(ToToml(config), "a stage", axes).config, 0);
  } catch (const Error&) {
    return;
  }
  const auto steps = 1 + static_cast<std::int64_t>(Below(seed, "until", kSteps - 1));
  config.train.samples = kSteps * config.batch.global;
  config.train.stages = fmt::format("{}: {}", config.batch.global * steps, fmt::join(axes, ", "));
}

Fault DrawFault(std::uint64_t seed) {
  Fault fault{.kind = static_cast<FaultKind>(Below(seed, "fault", kFaultKinds)),
              .moment = Share(seed, "moment"),
              .cuts = Below(seed, "cuts", 2) == 0};
  if (fault.kind == FaultKind::kFull) {
    constexpr std::int64_t kForGood = 1'000'000;
    fault.calls = Below(seed, "for good", 3) == 0 ? kForGood : 1 + static_cast<std::int64_t>(Below(seed, "calls", 40));
  }
  return fault;
}

}  // namespace

const char* Name(FaultKind kind) {
  switch (kind) {
    case FaultKind::kFull:
      return "full";
    case FaultKind::kError:
      return "eio";
    case FaultKind::kKill:
      return "kill";
    case FaultKind::kDamage:
      return "damage";
  }
  return "";
}

bool IsValid(const RunConfig& config) {
  try {
    Validate(config, 0);
    return true;
  } catch (const Error&) {
    return false;
  }
}

Tolerance ToleranceOf(const RunConfig& config) {
  // Signs of gradients, and gradients that are sent rounded, are other ones under every layout.
  constexpr double kAny = 1e9;
  if (config.optimizer.kind == OptimizerKind::kLion || config.layout.reduce != WireFormat::kExact ||
      config.layout.gather != WireFormat::kExact) {
    return {.loss = 0.1, .weights = kAny};
  }
  if (config.train.dtype != "fp32") {
    return {.loss = 3e-2, .weights = 0.1};
  }
  return config.optimizer.moments == "fp32" ? Tolerance{} : Tolerance{.loss = 1e-2, .weights = 3e-2};
}

RunConfig OnOneRank(const RunConfig& config) {
  RunConfig one = parity::OneRank(config);
  one.train.stages.clear();
  return one;
}

Composition Draw(std::uint64_t seed, const std::string& folder) {
  Composition drawn{.seed = seed, .config = parity::RandomRecipe(seed), .fault = DrawFault(seed)};
  RunConfig& config = drawn.config;
  config.train.steps = kSteps;
  config.train.threads = 1;
  config.train.device = "cpu";
  config.train.engine = "packed";
  config.checkpoint.every = kEvery;
  config.checkpoint.keep = 3;
  config.checkpoint.final_save_wait = 1;
  const auto add = [&](const char* feature, std::uint64_t one_in, const auto& change) {
    RunConfig changed = config;
    change(changed);
    if (Below(seed, feature, one_in) == 0 && IsValid(changed)) {
      config = changed;
    }
  };
  add("bf16", 8, [](RunConfig& c) { c.train.dtype = "bf16"; });
  add("fp16", 8, [](RunConfig& c) { c.train.dtype = "fp16"; });
  add("lion", 10, [](RunConfig& c) { c.optimizer.kind = OptimizerKind::kLion; });
  add("reduced as bf16", 10, [](RunConfig& c) { c.layout.reduce = WireFormat::kBFloat16; });
  add("reduced as int8", 10, [](RunConfig& c) { c.layout.reduce = WireFormat::kInt8; });
  add("gathered as int8", 10, [](RunConfig& c) { c.layout.gather = WireFormat::kInt8; });
  add("moments", 6, [](RunConfig& c) { c.optimizer.moments = "bf16"; });
  add("adapters", 6, [](RunConfig& c) { c.model.adapter.rank = 3; });
  add("synchronous saves", 3, [](RunConfig& c) { c.checkpoint.asynchronous = false; });
  add("files of two ranks", 4, [](RunConfig& c) { c.checkpoint.ranks_per_file = 2; });
  add("skipped step", 6, [](RunConfig& c) { c.train.skip_steps = "3"; });
  add("validation", 3, [](RunConfig& c) { c.validation.every = kEvery; });
  add("zeros", 6, [](RunConfig& c) { c.train.count_zeros = true; });
  add("replica checks", 6, [](RunConfig& c) { c.train.replica_check_every = 2; });
  add("documents", 3, [&](RunConfig& c) {
    c.data.source = folder + "/documents.bin";
    c.data.split = "50,50,0";
    c.data.document_masks = Below(seed, "masks", 2) == 0;
    c.data.padding_masks = Below(seed, "padding", 2) == 0;
  });
  drawn.documents = config.data.source == folder + "/documents.bin";
  drawn.other = DrawLayout(config, seed, "other");
  if (Below(seed, "stages", 3) == 0 && config.batch.ramp_start == 0) {
    AddStages(config, seed);
  }
  return drawn;
}

}  // namespace trireme::compositions
