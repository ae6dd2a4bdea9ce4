#include "planner/queries/emit.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <regex>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "planner/search/layout_space.h"
#include "run/recipe_keys.h"
#include "run/users_words.h"
#include "schedule/schedule.h"

namespace trireme {
namespace {

const std::vector<std::string>& LayoutWords() {
  static const std::vector<std::string> kWords = {
      "tp",      "cp", "pp",     "dp",    "mbs",    "zero",   "schedule",           "chunks", "recompute", "partition",
      "offload", "sp", "shards", "whole", "reduce", "gather", "offload_activations"};
  return kWords;
}

int ParseCount(const std::string& word, const std::string& value) {
  int count = 0;
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  const int least = word == "zero" ? 0 : 1;
  const int most = word == "whole" ? 2'000'000'000 : 1'000'000;
  Require(error == std::errc() && stop == value.data() + value.size() && count >= least && count <= most,
          "layout: {} = '{}' must be a whole number of at least {}", word, value, least);
  return count;
}

// The word for a key of a recipe's layout, or for what users of other programs call it: "tp" for "tensor"; "" for none.
std::string LayoutWordOf(const std::string& word) {
  static const std::map<std::string, std::string> kShort = {
      {"tensor", "tp"},       {"context", "cp"},           {"pipeline", "pp"},        {"data", "dp"},
      {"micro_batch", "mbs"}, {"sequence_parallel", "sp"}, {"shard_ranks", "shards"}, {"whole_below", "whole"}};
  const std::string key = KeyOfUsersWord(word);
  const std::string name = key.starts_with("layout.") ? key.substr(7) : key == "batch.global" ? "micro_batch" : word;
  const auto found = kShort.find(name);
  return found != kShort.end() ? found->second : name == word ? "" : name;
}

void Apply(const std::string& word, const std::string& value, ParallelLayout& layout) {
  if (word == "tp") {
    layout.tensor = ParseCount(word, value);
  } else if (word == "cp") {
    // "2" or "2:ulysses"
    const std::size_t colon = value.find(':');
    layout.context = ParseCount(word, value.substr(0, colon));
    layout.context_kind = colon == std::string::npos ? ContextKind::kAllGather
                                                     : FromWord<ContextKind>("context kind", value.substr(colon + 1));
  } else if (word == "pp") {
    layout.pipeline = ParseCount(word, value);
  } else if (word == "dp") {
    layout.data = ParseCount(word, value);
  } else if (word == "mbs") {
    layout.micro_batch = ParseCount(word, value);
  } else if (word == "zero") {
    layout.zero = ParseCount(word, value);
    Require(layout.zero <= kMostZeroStage, "layout: zero = {} must be 0 to 3", layout.zero);
  } else if (word == "chunks") {
    layout.chunks = ParseCount(word, value);
  } else if (word == "schedule") {
    layout.schedule = value;
  } else if (word == "recompute") {
    layout.recompute = FromWord<Recompute>("recompute", value);
  } else if (word == "partition") {
    layout.partition = value;
  } else if (word == "offload") {
    layout.offload = FromWord<Offload>("offload", value);
  } else if (word == "shards") {
    layout.shard_ranks = ParseCount(word, value);
  } else if (word == "whole") {
    layout.whole_below = ParseCount(word, value);
  } else if (word == "reduce") {
    layout.reduce = FromWord<WireFormat>("numbers sent", value);
  } else if (word == "gather") {
    layout.gather = FromWord<WireFormat>("numbers sent", value);
  } else if (word == "sp" || word == "offload_activations") {
    Require(value.empty() || value == "true" || value == "false" || value == "1" || value == "0",
            "layout: {} = '{}' must be true or false", word, value);
    (word == "sp" ? layout.sequence_parallel : layout.offload_activations) =
        value.empty() || value == "true" || value == "1";
  } else {
    std::string known;
    for (const std::string& one : LayoutWords()) {
      known += (known.empty() ? "" : ", ") + one;
    }
    const std::string meant = LayoutWordOf(word);
    Fail("layout: '{}' is unknown{}; known: {}", word,
         meant.empty() ? NearestMatch(word, LayoutWords()) : fmt::format(" (did you mean '{}'?)", meant), known);
  }
}

// "tp=4, pp=12 partition=7,7,6": words end at white space, and at commas except within a partition.
std::vector<std::string> SplitWords(const std::string& text) {
  std::vector<std::string> words;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t first = text.find_first_not_of(" \t\n", at);
    if (first == std::string::npos) {
      break;
    }
    const std::size_t last = std::min(text.find_first_of(" \t\n", first), text.size());
    std::string word = text.substr(first, last - first);
    const std::size_t comma = word.starts_with("partition=") ? std::string::npos : word.find(',');
    at = comma == std::string::npos ? last : first + comma + 1;
    word = word.substr(0, comma);
    if (!word.empty()) {
      words.push_back(word);
    }
  }
  return words;
}

// Name and value of "tp=4", and of what the planner prints: "tp4", "1f1b".
std::pair<std::string, std::string> Parts(const std::string& word) {
  if (const std::size_t equals = word.find('='); equals != std::string::npos) {
    return {word.substr(0, equals), word.substr(equals + 1)};
  }
  for (const ScheduleKind& kind : ScheduleKinds()) {
    if (word == kind.name) {
      return {"schedule", word};
    }
  }
  const std::size_t digit = word.find_first_of("0123456789");
  return {word.substr(0, digit), digit == std::string::npos ? "" : word.substr(digit)};
}

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

}  // namespace

std::set<std::string> ParseLayoutWords(const std::string& text) {
  std::set<std::string> words;
  for (const std::string& word : SplitWords(text)) {
    words.insert(Parts(word).first);
  }
  return words;
}

ParallelLayout ParseLayout(const std::string& text, const ParallelLayout& base) {
  ParallelLayout layout = base;
  std::set<std::string> given;
  for (const std::string& word : SplitWords(text)) {
    const auto [name, value] = Parts(word);
    Require(given.insert(name).second, "layout: {} is given twice in '{}'", name, text);
    Apply(name, value, layout);
  }
  return layout;
}

ParallelLayout ParseLayoutOf(const ModelConfig& model, const std::string& text) {
  ParallelLayout layout = ParseLayout(text, {});
  const std::int64_t stages = static_cast<std::int64_t>(layout.pipeline) * layout.chunks;
  if (!ParseLayoutWords(text).contains("partition") && model.layers % stages != 0) {
    layout.partition = "balanced";
  }
  return layout;
}

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
             "#SBATCH --output=%x-%A_%a.out\n\n",
             request.search.cluster.description, request.layout.ToString(), JobName(request.name),
             nodes + request.spare_nodes, tasks, devices, SiteOptions(request.job)) +
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
