#include "planner/queries/layout_words.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <vector>

#include "base/error.h"
#include "run/users_words.h"
#include "schedule/schedule.h"

namespace trireme {
namespace {

const std::vector<std::string>& LayoutWords() {
  static const std::vector<std::string> kWords = {
      "tp",        "cp",        "pp",      "dp", "ep",     "mbs",   "zero",   "schedule", "chunks",
      "recompute", "partition", "offload", "sp", "shards", "whole", "reduce", "gather",   "offload_activations"};
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
      {"tensor", "tp"},        {"context", "cp"},      {"pipeline", "pp"},          {"data", "dp"},
      {"expert", "ep"},        {"micro_batch", "mbs"}, {"sequence_parallel", "sp"}, {"shard_ranks", "shards"},
      {"whole_below", "whole"}};
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
  } else if (word == "ep") {
    layout.expert = ParseCount(word, value);
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

// Name and value of "tp=4", and of what the planner prints: "tp4", "1f1b", "uniform".
std::pair<std::string, std::string> Parts(const std::string& word) {
  if (const std::size_t equals = word.find('='); equals != std::string::npos) {
    return {word.substr(0, equals), word.substr(equals + 1)};
  }
  for (const ScheduleKind& kind : ScheduleKinds()) {
    if (word == kind.name) {
      return {"schedule", word};
    }
  }
  if (word == "uniform" || word == "balanced" || word == "cost") {
    return {"partition", word};
  }
  const std::size_t digit = word.find_first_of("0123456789");
  return {word.substr(0, digit), digit == std::string::npos ? "" : word.substr(digit)};
}

// What a schedule or a partition is called where it stands without its key.
bool StandsAlone(const std::string& word) { return !Parts(word).first.empty() && Parts(word).second == word; }

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

std::string NamedLayout(const ParallelLayout& layout) {
  const auto value = [](const char* key, const std::string& word) {
    return StandsAlone(word) ? word : fmt::format("{}={}", key, word);
  };
  std::string text = fmt::format("tp{} cp{}", layout.tensor, layout.context);
  text += layout.context_kind == ContextKind::kAllGather ? "" : ":" + Name(layout.context_kind);
  text += layout.expert != 1 ? fmt::format(" ep{}", layout.expert) : "";
  text += fmt::format(" pp{} dp{} zero{} {} chunks{} mbs{} {} recompute={} offload={} sp{}", layout.pipeline,
                      layout.data, layout.zero, value("schedule", layout.schedule), layout.chunks, layout.micro_batch,
                      value("partition", layout.partition), Name(layout.recompute), Name(layout.offload),
                      layout.sequence_parallel ? 1 : 0);
  text += layout.offload_activations ? " offload_activations" : "";
  text += layout.shard_ranks != 0 ? fmt::format(" shards={}", layout.shard_ranks) : "";
  text += layout.whole_below != 0 ? fmt::format(" whole={}", layout.whole_below) : "";
  text += layout.reduce != WireFormat::kExact ? " reduce=" + Name(layout.reduce) : "";
  text += layout.gather != WireFormat::kExact ? " gather=" + Name(layout.gather) : "";
  return text;
}

std::string NamedKeys(const ParallelLayout& layout, const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : SplitWords(NamedLayout(layout))) {
    if (words.contains(Parts(word).first)) {
      text += (text.empty() ? "" : " ") + word;
    }
  }
  return text;
}

namespace {

// Values that no key has: what a text leaves as it is, it does not name.
ParallelLayout Unset() {
  return {.tensor = 0,
          .context = 0,
          .pipeline = 0,
          .data = 0,
          .zero = -1,
          .schedule = "",
          .chunks = 0,
          .partition = "",
          .micro_batch = 0};
}

}  // namespace

void HoldKeys(const std::string& text, SearchRequest& request) {
  const ParallelLayout held = ParseLayout(text, Unset());
  const std::set<std::string> given = ParseLayoutWords(text);
  const auto hold = [&](const char* word, const auto& value, auto& key) {
    if (given.contains(word)) {
      key = value;
    }
  };
  hold("tp", held.tensor, request.tensor);
  hold("cp", held.context, request.context);
  hold("cp", held.context_kind, request.context_kind);
  hold("pp", held.pipeline, request.pipeline);
  hold("dp", held.data, request.data);
  hold("ep", held.expert, request.expert);
  hold("zero", held.zero, request.zero);
  hold("chunks", held.chunks, request.chunks);
  hold("mbs", held.micro_batch, request.micro_batch);
  hold("schedule", held.schedule, request.schedule);
  hold("partition", held.partition, request.partition);
  hold("recompute", Name(held.recompute), request.recompute);
  hold("offload", Name(held.offload), request.offload);
  hold("offload_activations", held.offload_activations, request.offload_activations);
  hold("sp", held.sequence_parallel, request.sequence_parallel);
  hold("shards", held.shard_ranks, request.rest.shard_ranks);
  hold("whole", held.whole_below, request.rest.whole_below);
  hold("reduce", held.reduce, request.rest.reduce);
  hold("gather", held.gather, request.rest.gather);
  // A degree or a micro batch that is asked for is within the limits.
  const int most = request.most_tensor > 0 ? request.most_tensor : request.cluster.devices_per_node;
  request.most_tensor = std::max(most, request.tensor.value_or(1));
  request.most_micro_batch = std::max(request.most_micro_batch, request.micro_batch.value_or(1));
}

std::set<std::string> FreeKeys(const SearchRequest& request, const std::string& text) {
  std::set<std::string> free = {"tp",  "pp",        "dp",        "zero",    "schedule", "chunks",
                                "mbs", "partition", "recompute", "offload", "sp"};
  if (request.most_context > 1) {
    free.insert("cp");
  }
  if (request.stack.features.experts && request.config.model.experts.any()) {
    free.insert("ep");
  }
  for (const std::string& word : ParseLayoutWords(text)) {
    free.erase(word);
  }
  return free;
}

}  // namespace trireme
