#include "checkpoint/format/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/format/bounded_json.h"
#include "checkpoint/format/model_json.h"
#include "checkpoint/format/shape_json.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "trireme-checkpoint";
constexpr std::int64_t kVersion = 3;
constexpr std::int64_t kOldestVersion = 1;
constexpr std::int64_t kLargestManifest = 256'000'000;
constexpr std::size_t kMostTensors = 1'000'000;
constexpr std::size_t kMostShards = 1'000'000;

// The last member, in fixed places: ,"digest":"<32 digits>"} and a line end.
constexpr std::string_view kTailStart = ",\n \"digest\":\"";
constexpr std::string_view kTailEnd = "\"}\n";
constexpr std::size_t kDigestLetters = 32;
constexpr std::size_t kTail = kTailStart.size() + kDigestLetters + kTailEnd.size();

json ScheduleJson(const ScheduleState& state) {
  return {{"end_samples", state.end_samples},         {"ramp_start", state.ramp_start},
          {"ramp_increment", state.ramp_increment},   {"ramp_samples", state.ramp_samples},
          {"ramp_origin", state.ramp_origin},         {"anchor_samples", state.anchor_samples},
          {"anchor_position", state.anchor_position}, {"horizon", state.horizon},
          {"bridge_start", state.bridge_start},       {"bridge_samples", state.bridge_samples},
          {"bridge_rate", state.bridge_rate},         {"next_rate", state.next_rate}};
}

ScheduleState ParseSchedule(const json& value, const std::string& origin) {
  return {.end_samples = CountOf(value, "end_samples", origin),
          .ramp_start = CountOf(value, "ramp_start", origin),
          .ramp_increment = CountOf(value, "ramp_increment", origin),
          .ramp_samples = CountOf(value, "ramp_samples", origin),
          .ramp_origin = CountOf(value, "ramp_origin", origin),
          .anchor_samples = CountOf(value, "anchor_samples", origin),
          .anchor_position = NumberOf(value, "anchor_position", origin),
          .horizon = NumberOf(value, "horizon", origin),
          .bridge_start = CountOf(value, "bridge_start", origin),
          .bridge_samples = CountOf(value, "bridge_samples", origin),
          .bridge_rate = NumberOf(value, "bridge_rate", origin),
          .next_rate = NumberOf(value, "next_rate", origin)};
}

json StateJson(const RunState& state) {
  json keys = json::object();
  for (const KeyValue& key : state.keys) {
    keys[key.key] = key.value;
  }
  json all = {{"step", state.step},
              {"consumed_samples", state.consumed_samples},
              {"consumed_tokens", state.consumed_tokens},
              {"updates", state.updates},
              {"loss_scale", state.loss_scale},
              {"seed", state.seed},
              {"program", state.program},
              {"saved_at", state.saved_at},
              {"layout", state.layout},
              {"ranks", state.ranks},
              {"model", ModelJson(state.model)},
              {"recipe", state.recipe},
              {"keys", keys},
              {"notes", state.notes}};
  if (state.schedule) {
    all["schedule"] = ScheduleJson(*state.schedule);
  }
  return all;
}

std::string TextMember(const std::string& key, const json& value, const std::string& origin) {
  Require(value.is_string(), "'{}': '{}' must be a string", origin, key);
  return value.get<std::string>();
}

RunState ParseState(const json& value, const std::string& origin) {
  RunState state;
  state.step = CountOf(value, "step", origin);
  state.consumed_samples = CountOf(value, "consumed_samples", origin);
  state.updates = CountOf(value, "updates", origin);
  state.loss_scale = NumberOf(value, "loss_scale", origin);
  if (value.contains("schedule")) {
    state.schedule = ParseSchedule(ObjectOf(value, "schedule", origin), origin);
  }
  const json& seed = MemberOf(value, "seed", origin);
  Require(seed.is_number_integer(), "'{}': 'seed' must be an integer", origin);
  state.seed = seed.get<std::int64_t>();
  state.program = TextOf(value, "program", origin);
  state.saved_at = TextOf(value, "saved_at", origin);
  state.layout = TextOf(value, "layout", origin);
  state.ranks = CountOf(value, "ranks", origin);
  state.model = ParseModel(ObjectOf(value, "model", origin), origin);
  if (value.contains("consumed_tokens")) {
    state.consumed_tokens = CountOf(value, "consumed_tokens", origin);
  } else {
    Require(!__builtin_mul_overflow(state.consumed_samples, state.model.sequence, &state.consumed_tokens),
            "'{}': {} samples of {} tokens cannot have been consumed", origin, state.consumed_samples,
            state.model.sequence);
  }
  state.recipe = TextOf(value, "recipe", origin);
  for (const auto& [key, text] : ObjectOf(value, "keys", origin).items()) {
    state.keys.push_back({.key = key, .value = TextMember(key, text, origin)});
  }
  for (const auto& [key, text] : ObjectOf(value, "notes", origin).items()) {
    state.notes[key] = TextMember(key, text, origin);
  }
  return state;
}

std::vector<ManifestTensor> ParseTensors(const json& list, const std::string& origin) {
  Require(list.size() <= kMostTensors, "'{}': {} tensors; at most {} are read", origin, list.size(), kMostTensors);
  std::vector<ManifestTensor> tensors;
  for (const json& value : list) {
    ManifestTensor tensor{.name = TextOf(value, "name", origin), .kind = TextOf(value, "kind", origin)};
    RequirePlainName(tensor.name, origin);
    RequirePlainName(tensor.kind, origin);
    tensor.shape = ParseShape(ArrayOf(value, "shape", origin), origin, tensor.name);
    Require(TextOf(value, "dtype", origin) == "fp32", "'{}': '{}' has a dtype other than fp32", origin, tensor.name);
    const bool ascending =
        tensors.empty() || std::pair(tensors.back().kind, tensors.back().name) < std::pair(tensor.kind, tensor.name);
    Require(ascending, "'{}': tensor '{}' stands twice or out of order", origin, tensor.name);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::vector<ManifestShard> ParseShards(const json& list, const std::string& origin, ShardList wanted) {
  Require((!list.empty() || wanted == ShardList::kLeftOut) && list.size() <= kMostShards,
          "'{}': {} shards; 1 to {} are read", origin, list.size(), kMostShards);
  std::vector<ManifestShard> shards;
  std::set<std::string> files;
  for (const json& value : list) {
    ManifestShard shard{.file = TextOf(value, "file", origin),
                        .bytes = CountOf(value, "bytes", origin),
                        .header = ParseDigest(TextOf(value, "header", origin))};
    RequirePlainFileName(shard.file, origin);
    Require(files.insert(shard.file).second, "'{}': the shard '{}' stands twice", origin, shard.file);
    shards.push_back(std::move(shard));
  }
  return shards;
}

std::optional<ManifestIndex> ParseIndexMember(const json& root, const std::string& origin) {
  if (!root.contains("index")) {
    return std::nullopt;
  }
  const json& value = ObjectOf(root, "index", origin);
  Require(TextOf(value, "file", origin) == kIndexFile, "'{}': the index is '{}'; this program reads {}", origin,
          TextOf(value, "file", origin), kIndexFile);
  return ManifestIndex{.bytes = CountOf(value, "bytes", origin),
                       .digest = ParseDigest(TextOf(value, "digest", origin))};
}

// The text before the tail, once the tail's digest agrees with it.
std::string_view CheckedBody(std::string_view text, const std::string& origin) {
  Require(text.size() > kTail && text.size() <= static_cast<std::size_t>(kLargestManifest),
          "'{}': {} bytes are no manifest", origin, text.size());
  const std::string_view body = text.substr(0, text.size() - kTail);
  const std::string_view tail = text.substr(body.size());
  Require(tail.starts_with(kTailStart) && tail.ends_with(kTailEnd),
          "'{}' does not end with its digest: it is cut short or damaged", origin);
  const std::string written(tail.substr(kTailStart.size(), kDigestLetters));
  const std::string computed = ToHex(DigestOf(body));
  Require(written == computed, "'{}' is damaged: its digest is {}, its bytes make {}", origin, written, computed);
  return body;
}

}  // namespace

std::string FormatManifest(const Manifest& manifest) {
  json tensors = json::array();
  for (const ManifestTensor& tensor : manifest.tensors) {
    tensors.push_back(
        {{"name", tensor.name}, {"kind", tensor.kind}, {"dtype", "fp32"}, {"shape", Extents(tensor.shape)}});
  }
  json shards = json::array();
  for (const ManifestShard& shard : manifest.shards) {
    shards.push_back({{"file", shard.file}, {"bytes", shard.bytes}, {"header", ToHex(shard.header)}});
  }
  json root = {{"format", kFormat},
               {"version", kVersion},
               {"state", StateJson(manifest.state)},
               {"tensors", std::move(tensors)},
               {"shards", std::move(shards)}};
  if (manifest.index) {
    root["index"] = {{"file", kIndexFile}, {"bytes", manifest.index->bytes}, {"digest", ToHex(manifest.index->digest)}};
  }
  // Text that is no UTF-8 (a path in a recipe) must not lose a checkpoint.
  std::string text = JsonText(root, {.indent = 1});
  text.resize(text.size() - std::string_view("\n}").size());
  const std::string digest = ToHex(DigestOf(text));
  return text + std::string(kTailStart) + digest + std::string(kTailEnd);
}

Manifest ParseManifest(std::string_view text, const std::string& origin, ShardList shards) {
  CheckedBody(text, origin);
  const json root = ParseBoundedJson(text, origin, {.depth = 6, .values = 5'000'000, .unique_keys = true});
  Require(TextOf(root, "format", origin) == kFormat, "'{}' is no manifest of a checkpoint", origin);
  const std::int64_t version = CountOf(root, "version", origin);
  Require(version >= kOldestVersion && version <= kVersion, "'{}': format version {}; this program reads {} to {}",
          origin, version, kOldestVersion, kVersion);
  return {.state = ParseState(ObjectOf(root, "state", origin), origin),
          .tensors = ParseTensors(ArrayOf(root, "tensors", origin), origin),
          .shards = ParseShards(ArrayOf(root, "shards", origin), origin, shards),
          .index = ParseIndexMember(root, origin)};
}

Manifest ReadManifest(const std::string& folder) {
  const std::string path = folder + "/" + kManifestFile;
  return ParseManifest(ReadWholeFile(path, kLargestManifest), path);
}

}  // namespace trireme
