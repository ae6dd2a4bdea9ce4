#include "planner/queries/emit.h"

#include <algorithm>
#include <regex>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "planner/search/layout_space.h"
#include "run/recipe_keys.h"

namespace trireme {
namespace {

void RequireOneLine(const std::string& text, const std::string& what) {
  const bool plain =
      std::none_of(text.begin(), text.end(), [](unsigned char letter) { return letter < 0x20 || letter == 0x7f; });
  Require(plain, "{} has a control character, such as a line end, which no job script or recipe may hold: take it out",
          what);
}

bool IsJobLetter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
         letter == '.' || letter == '_' || letter == '-';
}

void RequireSiteWord(const std::string& text, const std::string& option) {
  const bool plain = std::all_of(text.begin(), text.end(),
                                 [](char letter) { return IsJobLetter(letter) || letter == ',' || letter == '@'; });
  Require(plain && !text.starts_with("-"), "{} '{}' must be a name of letters, digits, '.', '_', '-', '@' and ','",
          option, text);
}

// Features of nodes may be combined: "v100-32g", "a100&nvme", "[rack1|rack2]".
void RequireConstraint(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char letter) {
    return IsJobLetter(letter) || std::string_view("&|,*()[]").find(letter) != std::string_view::npos;
  });
  Require(plain && !text.starts_with("-"), "--constraint '{}' must be names of features, joined by '&', '|' or ','",
          text);
}

// minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds
void RequireTimeLimit(const std::string& text) {
  static const std::regex kTime(R"((\d{1,6}(:\d{1,2}){0,2}|\d{1,4}-\d{1,2}(:\d{1,2}){0,2}))");
  Require(std::regex_match(text, kTime), "--time-limit '{}' must be minutes, hours:minutes:seconds or days-hours",
          text);
}

// A digest of every key's default: a recipe says which defaults it was written for.
std::string DigestOfDefaults() {
  Hasher hasher;
  hasher.AddText(ToToml(RunConfig()));
  return ToHex(hasher.digest());
}

// The keys of a job as TOML: those that differ from the defaults, or all, and the source of the data, which only its
// user knows. Its length is in tokens, so that train.steps is left out.
std::string KeysText(const RunConfig& config, bool full) {
  const RunConfig defaults;
  std::string text;
  std::string section;
  for (const RecipeKey& key : RecipeKeys()) {
    const bool source = key.name == "data.source";
    const bool told = source || full || GetKey(config, key) != GetKey(defaults, key);
    if (!told || key.name == "train.steps") {
      continue;
    }
    const std::size_t point = key.name.find('.');
    if (key.name.substr(0, point) != section) {
      section = key.name.substr(0, point);
      text += fmt::format("\n[{}]\n", section);
    }
    const std::string name = key.name.substr(point + 1);
    text += source ? fmt::format(
                         "# Required: what `trireme data prepare` wrote, of at most {} tokens in the vocabulary.\n"
                         "source = \"DATASET.bin\"\n",
                         config.model.vocabulary)
                   : fmt::format("{} = {}\n", name, ToToml(GetKey(config, key)));
  }
  return text;
}

// Tokens of a training of this model where none are asked for: twenty a parameter (Hoffmann et al. 2022).
constexpr double kTokensOfParameter = 20;
// Warm-up is a hundredth of the run, at most so many steps; so is the distance of validations.
constexpr std::int64_t kMostWarmUp = 2000;
constexpr std::int64_t kMostBetweenValidations = 1000;

// Whose speed the plan is about where that is not the program that the job starts.
std::string PricedText(const EmitRequest& request) {
  return request.search.prices().prices_every_recipe()
             ? ""
             : fmt::format(
                   "# Priced was the program of stack {}. This starts trireme, which has its own speed: see "
                   "--stack trireme.\n",
                   request.search.stack.name);
}

}  // namespace

// Slurm reads its options from comments, where no quoting helps.
std::string JobName(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char letter) { return !IsJobLetter(letter); }, '_');
  return name.empty() ? "planned" : name;
}

// A folder whose name begins with a dash would be taken for an option.
std::string FolderWord(const std::string& name) { return name.starts_with("-") ? "./" + name : name; }

std::string SiteOptions(const JobOptions& job) {
  const auto line = [](const char* option, const std::string& value) {
    return value.empty() ? "" : fmt::format("#SBATCH --{}={}\n", option, value);
  };
  return line("time", job.time_limit) + line("account", job.account) + line("partition", job.partition) +
         line("constraint", job.constraint) + line("reservation", job.reservation) + line("qos", job.qos) +
         line("cpus-per-task", job.cpus_per_task > 0 ? std::to_string(job.cpus_per_task) : "") + line("hint", job.hint);
}

RunConfig EmitConfig(const EmitRequest& request) {
  RunConfig config = ConfigOf(request.search, request.layout);
  config.batch = request.batch;
  config.batch.global = request.search.config.batch.global;
  config.train.tokens = static_cast<std::int64_t>(
      request.tokens > 0 ? request.tokens : kTokensOfParameter * static_cast<double>(ParameterCount(config.model)));
  const std::int64_t steps =
      std::max<std::int64_t>(1, config.train.tokens / config.model.sequence / config.batch.global);
  config.optimizer.warmup_samples = std::min(std::max<std::int64_t>(1, steps / 100), kMostWarmUp) * config.batch.global;
  config.validation.every = std::clamp<std::int64_t>(steps / 100, 1, kMostBetweenValidations);
  config.checkpoint.every = request.checkpoint_every;
  if (!request.stages.empty()) {
    // Stages end at samples, and say the batches that a ramp would.
    config.train.stages = request.stages;
    config.train.samples = config.train.tokens / config.model.sequence;
    config.train.tokens = 0;
    config.batch = {.global = config.batch.global};
  }
  Validate(config, request.search.devices);
  return config;
}

void RequireEmittable(const Cluster& cluster, const std::string& name, const JobOptions& job) {
  RequireOneLine(name, "--out");
  RequireOneLine(cluster.name, "the cluster's name");
  RequireOneLine(cluster.description, "the cluster's description");
  RequireSiteWord(job.account, "--account");
  RequireSiteWord(job.partition, "--partition");
  RequireSiteWord(job.hint, "--hint");
  RequireSiteWord(job.reservation, "--reservation");
  RequireSiteWord(job.qos, "--qos");
  RequireConstraint(job.constraint);
  if (!job.time_limit.empty()) {
    RequireTimeLimit(job.time_limit);
  }
}

std::string TrainerAbsence(const Cluster& cluster) {
  const DeviceSpec& device = cluster.device;
  if (device.is_host || (device.api == "cuda" && device.has_bf16)) {
    return "";
  }
  return device.api == "cuda"
             ? fmt::format("trireme does not train on {}: its kernels need compute capability 8.0 (A100) or later",
                           device.name)
             : fmt::format("trireme does not train on {}: it has kernels for CUDA and for CPUs, none for {}",
                           device.name, device.api);
}

void RequireTrainable(const Cluster& cluster) {
  const std::string absence = TrainerAbsence(cluster);
  Require(absence.empty(), "--emit: {}", absence);
}

std::string ShellWord(const std::string& text, const std::string& what) {
  RequireOneLine(text, what);
  std::string word = "'";
  for (const char letter : text) {
    word += letter == '\'' ? std::string(R"('\'')") : std::string(1, letter);
  }
  return word + "'";
}

std::string EmitRecipe(const EmitRequest& request) {
  RequireEmittable(request.search.cluster, request.name, request.job);
  RequireOneLine(request.search.stack.name, "the stack's name");
  RequireOneLine(request.program, "the program's version");
  const RunConfig config = EmitConfig(request);
  std::string text =
      fmt::format("# {} on {} devices of {}, planned for stack {}: {}\n", request.name, request.search.devices,
                  request.search.cluster.name, request.search.stack.name, request.layout.ToString());
  text += PricedText(request);
  text += fmt::format("# By trireme{}{}. ", request.program.empty() ? "" : " ", request.program);
  text += request.full ? "Every key but train.steps is here.\n"
                       : fmt::format(
                             "Keys that are not here have their defaults (digest {});\n# the run's run.toml names "
                             "them all.\n",
                             DigestOfDefaults());
  return text + KeysText(config, request.full);
}

std::string EmitSbatch(const EmitRequest& request, const std::string& recipe_path) {
  RequireEmittable(request.search.cluster, request.name, request.job);
  const int per_node = request.search.cluster.devices_per_node;
  const int nodes = (request.search.devices + per_node - 1) / per_node;
  const int tasks = nodes == 1 ? request.search.devices : per_node;
  // Machines without accelerators have no such resource to ask for.
  const std::string devices =
      request.search.cluster.device.is_host ? "" : fmt::format("#SBATCH --gres=gpu:{}\n", tasks);
  const std::string standby =
      request.spare_nodes > 0 ? fmt::format(" {} of the nodes stand by for those that fail.", request.spare_nodes) : "";
  return fmt::format(
             "#!/bin/bash\n"
             "# {}: {}\n"
             "#SBATCH --job-name={}\n"
             "#SBATCH --nodes={}\n"
             "#SBATCH --ntasks-per-node={}\n"
             "{}{}"
             "#SBATCH --exclusive\n"
             "#SBATCH --array=1-10%1\n"
             "#SBATCH --signal=TERM@300\n"
             "#SBATCH --requeue\n"
             "#SBATCH --output=%x-%A_%a.out\n{}\n",
             request.search.cluster.description, request.layout.ToString(), JobName(request.name),
             nodes + request.spare_nodes, tasks, devices, SiteOptions(request.job), PricedText(request)) +
         fmt::format(
             "# One rank per device. The jobs of the array run one after another, each from the newest good "
             "checkpoint.{}\n"
             "# One supervisor per job, here in the batch script: it starts the ranks with srun, ends them when one "
             "stands still or dies, and starts them again.\n"
             "trireme train {} --run {} --supervise \\\n"
             "  --launcher \"srun --nodes={} --ntasks={} --kill-on-bad-exit=1\"\n"
             "code=$?\n"
             "# 0: finished, 5: the last save failed and the disk needs room; either way the others of the array are "
             "not "
             "needed. 3: saved in time, the next goes on.\n"
             "if [ $code -eq 0 ] || [ $code -eq 5 ]; then scancel --state=PENDING "
             "\"${{SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}}\"; fi\n"
             "if [ $code -eq 3 ]; then exit 0; fi\n"
             "exit $code\n",
             standby, ShellWord(FolderWord(recipe_path), "--out"), ShellWord(FolderWord(request.name), "--out"), nodes,
             request.search.devices);
}

}  // namespace trireme
