#include "operate/run_start.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/durable_file.h"
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

RunConfig MemoryChoices::FittedTo(const RunConfig& config, std::int64_t room) const {
  return room > 0 && (choices_.recompute || choices_.micro_batch) ? Fitted(config, room, choices_) : config;
}

std::optional<std::string> MemoryChoices::PinnedProducts() const {
  if (pinned_ && pinned_->train.fp8_products != "auto") {
    return pinned_->train.fp8_products;
  }
  // A run in fp8 on GPUs without a choice is that of a version which made all products in fp8.
  const bool all = pinned_ && pinned_->train.dtype == "fp8" && !IsHostDevice(pinned_->train.device);
  return all ? std::optional<std::string>("all") : std::nullopt;
}

RunConfig MemoryChoices::Choose(const RunConfig& config, std::int64_t room) const {
  if (!pinned_) {
    return FittedTo(config, room);
  }
  RunConfig chosen = config;
  chosen.layout.recompute = choices_.recompute ? pinned_->layout.recompute : chosen.layout.recompute;
  chosen.layout.micro_batch = choices_.micro_batch ? pinned_->layout.micro_batch : chosen.layout.micro_batch;
  return chosen;
}

RunConfig MemoryChoices::Choose(const RunConfig& config, std::int64_t room, const ProductChoice& choose) const {
  if (config.train.dtype != "fp8" || config.train.fp8_products != "auto") {
    return Choose(config, room);
  }
  RunConfig wanted = config;
  if (const std::optional<std::string> pinned = PinnedProducts()) {
    wanted.train.fp8_products = *pinned;
    return Choose(wanted, room);
  }
  wanted.train.fp8_products = "all";
  const RunConfig all = FittedTo(wanted, room);
  // Products are chosen for a micro batch, and what it takes follows from the products: both until they agree. The
  // rounds are limited because two micro batches could ask for each other's products.
  constexpr int kMostRounds = 4;
  RunConfig fitted = all;
  int chosen_for = 0;
  for (int round = 0; round < kMostRounds && fitted.layout.micro_batch != chosen_for; ++round) {
    chosen_for = fitted.layout.micro_batch;
    wanted.train.fp8_products = choose(fitted);
    fitted = FittedTo(wanted, room);
  }
  const bool too_large = room > 0 && !FitsDevices(fitted, room) && FitsDevices(all, room);
  return too_large ? all : fitted;
}

RunConfig MemoryChoices::ChooseForDevices(const RunConfig& config, RankContext& context) const {
  std::int64_t room = RoomOnDevice(context.device.memory_bytes(), context.sharing);
  for (const std::vector<std::int64_t>& other : GatherNumbers(context.world, context.device, {room})) {
    room = std::min(room, other.front());
  }
  RunConfig chosen = config;
  if (context.world.rank() == 0) {
    chosen =
        Choose(config, room, [&](const RunConfig& fitted) { return ChooseFloat8Products(fitted, context.device); });
  }
  // On the host: freeing what was measured with waits for the whole GPU, and with it for the collective of a rank that
  // shares it.
  context.world.Barrier();
  const auto all = GatherNumbers(context.world, context.device,
                                 {static_cast<std::int64_t>(chosen.layout.recompute), chosen.layout.micro_batch,
                                  ParseFloat8Products(chosen.train.fp8_products)});
  const std::vector<std::int64_t>& first = all.front();
  chosen.layout.recompute = static_cast<Recompute>(first[0]);
  chosen.layout.micro_batch = static_cast<int>(first[1]);
  if (chosen.train.dtype == "fp8") {
    chosen.train.fp8_products = Float8ProductsText(static_cast<LinearSet>(first[2]));
  }
  return chosen;
}

void RefuseLinkedFolders(const std::string& run_folder) {
  for (const char* name : {"flight", "trace", "dump", "tensorboard"}) {
    RefuseLink(run_folder + "/" + name);
  }
}

std::int64_t JobEnd(double walltime) {
  if (walltime > 0) {
    return WallNanoseconds() + static_cast<std::int64_t>(walltime * 1e9);
  }
  const char* const end = std::getenv("SLURM_JOB_END_TIME");
  return end == nullptr ? 0 : static_cast<std::int64_t>(std::strtod(end, nullptr) * 1e9);
}

std::int64_t LeaveBefore(double exit_before, std::int64_t job_ends_ns) {
  if (exit_before <= 0) {
    return 0;
  }
  Require(
      job_ends_ns > 0,
      "--exit-before {} needs to know when the time is up: SLURM_JOB_END_TIME is not set, so give --walltime SECONDS",
      exit_before);
  return std::max(WallNanoseconds(), job_ends_ns - static_cast<std::int64_t>(exit_before * 1e9));
}

}  // namespace trireme
