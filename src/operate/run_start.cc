#include "operate/run_start.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "comm/ledger.h"
#include "device/host_memory.h"
#include "operate/joint_refusal.h"
#include "run/recipe_keys.h"
#include "train/float8_choice.h"
#include "train/gather_numbers.h"

namespace trireme {
namespace {

// False, on every rank, when `check` refuses the run on any: that rank says why.
bool AllMayStart(RankContext& context, const std::function<void()>& check) {
  const JointRefusal refusal = RefusedByAny(context, check);
  if (!refusal.reason.empty()) {
    std::fprintf(stderr, "trireme: rank %d: %s\n", context.world.rank(), refusal.reason.c_str());
  }
  return !refusal.refused;
}

// What a GPU's kernels lack, whether or not there is one here.
void RequireKernels(const RunConfig& config) {
  Require(config.model.attention_dropout == 0 || config.train.plain_attention() || IsHostDevice(config.train.device),
          "model.attention_dropout = {}: the GPU's fused attention has no dropout; set train.attention = \"plain\", or "
          "model.attention_dropout = 0 (model.dropout works), or train.device = \"cpu\"",
          config.model.attention_dropout);
  constexpr int kMostChunksOnGpus = 256;  // of keys; device/cuda/attention_plain.cuh
  const ParallelLayout& layout = config.layout;
  const int chunks = layout.context == 1 ? 1 : 2 * layout.context * layout.context_stripes;
  Require(chunks <= kMostChunksOnGpus || IsHostDevice(config.train.device),
          "layout.context = {} x layout.context_stripes = {} on train.device = '{}': a GPU's attention kernels take {} "
          "chunks of keys at most, and these are {}; set fewer stripes or ranks, or train.device = 'cpu'",
          layout.context, layout.context_stripes, config.train.device, kMostChunksOnGpus, chunks);
  Require(
      !config.train.plain_attention() || layout.context == 1 || layout.context_kind == ContextKind::kUlysses ||
          IsHostDevice(config.train.device),
      "train.attention = 'plain' with layout.context = {} on train.device = '{}': a GPU's plain attention has all "
      "keys where its queries are; set layout.context_kind = 'ulysses', train.attention = 'flash', or train.device = "
      "'cpu'",
      layout.context, config.train.device);
}

}  // namespace

void RequireMachine(const RunConfig& config, bool by_threads, bool saves) {
  RequireKernels(config);
  const bool paced = config.train.device == "paced";
  if (!paced) {
    RequireDevice(config.train.device);
  }
  Require(
      !paced || by_threads,
      "train.device = 'paced' runs all ranks as threads of one process: start it without mpirun, srun or --launcher");
  if (!by_threads) {
    return;
  }
  const int ranks = config.layout.ranks();
  Require(ranks <= kMostThreadRanks, "{} ranks are more than the {} that run as threads of one process; use mpirun",
          ranks, kMostThreadRanks);
  RequireRoomOnOneMachine(config,
                          {.devices_are_hosts = IsHostDevice(config.train.device), .saves = saves, .holds = !paced},
                          HostMemoryBytes());
}

bool ProcessesMayStart(const RunConfig& config, RankContext& context, bool saves,
                       const std::function<void()>& take_lock) {
  return AllMayStart(context,
                     [&] {
                       Validate(config, context.world.size());
                       RequireHostRoom(config, context, saves);
                     }) &&
         AllMayStart(context, [&] {
           if (context.world.rank() == 0) {
             take_lock();
           }
         });
}

MemoryChoices::MemoryChoices(const Recipe& recipe, bool fit, const std::string& folder)
    : choices_{.recompute = recipe.origins.at("layout.recompute") == kRecomputeAutomatic, .micro_batch = fit} {
  const std::string path = folder + "/run.toml";
  std::error_code status;
  const bool chooses = choices_.recompute || choices_.micro_batch || recipe.config.train.dtype == "fp8";
  if (chooses && std::filesystem::exists(path, status)) {
    try {
      pinned_ = LoadRecipe(path, {}).config;
    } catch (const Error&) {
      // It is rewritten at every start: a damaged one pins nothing.
    }
  }
}

RunConfig MemoryChoices::Choose(const RunConfig& config, std::int64_t room) const {
  RunConfig chosen = config;
  if (pinned_) {
    chosen.layout.recompute = choices_.recompute ? pinned_->layout.recompute : chosen.layout.recompute;
    chosen.layout.micro_batch = choices_.micro_batch ? pinned_->layout.micro_batch : chosen.layout.micro_batch;
    return chosen;
  }
  return room > 0 && (choices_.recompute || choices_.micro_batch) ? Fitted(config, room, choices_) : chosen;
}

RunConfig MemoryChoices::ChooseForDevices(const RunConfig& config, RankContext& context) const {
  std::int64_t least = context.device.memory_bytes();
  for (const std::vector<std::int64_t>& other : GatherNumbers(context.world, context.device, {least})) {
    least = std::min(least, other.front());
  }
  RunConfig chosen = Choose(config, RoomOnDevice(least, context.sharing));
  if (chosen.train.dtype == "fp8" && chosen.train.fp8_products == "auto") {
    const bool chose = pinned_ && pinned_->train.fp8_products != "auto";
    // A run in fp8 on GPUs without a choice is that of a version which made all products in fp8.
    const bool all = pinned_ && pinned_->train.dtype == "fp8" && !IsHostDevice(pinned_->train.device);
    chosen.train.fp8_products = chose ? pinned_->train.fp8_products
                                : all ? "all"
                                      : ChooseFloat8Products(chosen, context);
  }
  return chosen;
}

std::int64_t LeaveBefore(double exit_before, double walltime) {
  const char* const end = std::getenv("SLURM_JOB_END_TIME");
  if (exit_before <= 0) {
    return 0;
  }
  Require(
      walltime > 0 || end != nullptr,
      "--exit-before {} needs to know when the time is up: SLURM_JOB_END_TIME is not set, so give --walltime SECONDS",
      exit_before);
  const std::int64_t now = WallNanoseconds();
  const double until = walltime > 0 ? static_cast<double>(now) + walltime * 1e9 : std::strtod(end, nullptr) * 1e9;
  return std::max(now, static_cast<std::int64_t>(until - exit_before * 1e9));
}

}  // namespace trireme
