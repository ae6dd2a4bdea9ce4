#include "checkpoint/read/dropped_state.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "checkpoint/format/shard_header.h"
#include "checkpoint/read/checkpoint_folder.h"
#include "cost/optimizer_plan.h"
#include "model/parameter_table.h"

namespace trireme {
namespace {

constexpr std::array<const char*, 6> kParts = {"layers", "heads", "output", "adapters", "parameters", "optimizer"};
constexpr std::string_view kBlockPrefix = "block.";

// The block that a parameter belongs to; -1: none.
std::int64_t LayerOf(std::string_view name) {
  std::int64_t layer = -1;
  if (name.starts_with(kBlockPrefix)) {
    std::from_chars(name.data() + kBlockPrefix.size(), name.data() + name.size(), layer);
  }
  return layer;
}

// The part to which a parameter belongs that the model has not.
const char* PartOf(std::string_view name, const ModelConfig& model) {
  if (LayerOf(name) >= model.layers) {
    return "layers";
  }
  if (name.ends_with(".lora_a") || name.ends_with(".lora_b")) {
    return "adapters";
  }
  return name == "head.weight" && model.tie_embeddings ? "output" : "parameters";
}

using Names = std::vector<std::string>;

std::string Listed(const Names& names) {
  return names.size() == 1 ? fmt::format("'{}'", names.front())
                           : fmt::format("{} tensors such as '{}'", names.size(), names.front());
}

std::string Reason(const std::string& part, const Names& names, const ModelConfig& saved, const ModelConfig& model) {
  const std::string listed = Listed(names);
  if (part == "layers") {
    return fmt::format("{}: model.layers = {}, the checkpoint's model has {}", listed, model.layers, saved.layers);
  }
  if (part == "output") {
    return fmt::format("{}: model.tie_embeddings = true, the checkpoint's is false", listed);
  }
  if (part == "adapters") {
    return fmt::format("{}: lora.rank = {}, lora.targets = '{}'; the checkpoint's are {}, '{}'", listed,
                       model.adapter.rank, model.adapter.targets, saved.adapter.rank, saved.adapter.targets);
  }
  return fmt::format("{}: the recipe's model has no such parameters", listed);
}

std::string HeadsOf(const ModelConfig& model) {
  return fmt::format("{} heads, {} of keys, of {} elements each", model.heads,
                     model.kv_heads > 0 ? model.kv_heads : model.heads, model.head_size());
}

std::string ValueOf(const std::vector<KeyValue>& keys, std::string_view name) {
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const KeyValue& each) { return each.key == name; });
  return found == keys.end() ? "" : found->value;
}

using StateKey = std::pair<std::string, std::string>;  // kind, name

// Why the optimizer's state does not fit; "" when it does. `missing`, `unwanted`: moments of parameters that both have.
std::string OptimizerReason(const RunState& saved, const RunConfig& config, const Names& missing,
                            const Names& unwanted) {
  std::string before = ValueOf(saved.keys, "optimizer.name");
  before.erase(std::remove(before.begin(), before.end(), '"'), before.end());
  const std::string wanted = Name(config.optimizer.kind);
  if (!before.empty() && before != wanted) {
    return fmt::format("optimizer.name = '{}', the checkpoint's is '{}'", wanted, before);
  }
  if (!unwanted.empty()) {
    return fmt::format("the recipe's optimizer keeps no {}", Listed(unwanted));
  }
  return missing.empty() ? "" : fmt::format("the recipe's optimizer needs {}, which it lacks", Listed(missing));
}

}  // namespace

std::vector<ManifestTensor> StateTensors(const RunConfig& config) {
  const ParameterTable table(config.model);
  const std::vector<RowUpdate> updates = UpdatesOf(config.optimizer, table);
  std::vector<ManifestTensor> tensors;
  for (std::size_t row = 0; row < table.rows().size(); ++row) {
    const Parameter& parameter = table.rows()[row];
    const auto add = [&](const char* kind, const Shape& shape) {
      tensors.push_back({.name = parameter.name, .kind = kind, .shape = shape});
    };
    add(kMasterKind, parameter.shape);
    if (parameter.frozen) {
      continue;
    }
    if (updates[row].first_moment) {
      add(kFirstMomentKind, parameter.shape);
    }
    if (updates[row].second_moment) {
      add(kSecondMomentKind, parameter.shape);
    }
    if (updates[row].factored) {
      add(kRowMomentKind, {parameter.shape[0]});
      add(kColumnMomentKind, {parameter.shape[1]});
    }
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return std::tie(a.kind, a.name) < std::tie(b.kind, b.name); });
  return tensors;
}

std::vector<DroppedState> FindDroppedState(const Manifest& manifest, const std::string& folder,
                                           const RunConfig& config) {
  if (manifest.tensors.empty()) {
    Require(config.train.device == "paced",
            "'{}' holds no tensors: a run on paced devices saved it, and only such a run can go on from it", folder);
    return {};
  }
  const RunState& saved = manifest.state;
  std::map<StateKey, Shape> wanted;
  for (const ManifestTensor& tensor : StateTensors(config)) {
    wanted[{tensor.kind, tensor.name}] = tensor.shape;
  }
  const auto has_parameter = [&](const std::string& name) { return wanted.count({kMasterKind, name}) > 0; };
  std::map<std::string, Names> by_part;
  Names unwanted;
  std::set<StateKey> stored;
  bool weights_only = true;
  for (const ManifestTensor& tensor : manifest.tensors) {
    const StateKey key{tensor.kind, tensor.name};
    stored.insert(key);
    weights_only = weights_only && tensor.kind == kMasterKind;
    const auto found = wanted.find(key);
    if (found != wanted.end()) {
      Require(found->second == tensor.shape,
              "'{}': the {} of '{}' has the shape {}, this run's has {}; to start from other weights: model.from",
              folder, tensor.kind, tensor.name, tensor.shape.ToString(), found->second.ToString());
    } else if (has_parameter(tensor.name)) {
      unwanted.push_back(tensor.kind + " " + tensor.name);
    } else {
      by_part[PartOf(tensor.name, config.model)].push_back(tensor.kind + " " + tensor.name);
    }
  }
  Names missing;
  for (const auto& [key, shape] : wanted) {
    const auto& [kind, name] = key;
    if (stored.count(key) == 0) {
      Require(kind != kMasterKind, "'{}' has no weights of '{}'; to start from the weights it has: model.from", folder,
              name);
      missing.push_back(kind + " " + name);
    }
  }
  std::map<std::string, std::string> reasons;
  for (const auto& [part, names] : by_part) {
    reasons[part] = Reason(part, names, saved.model, config.model);
  }
  if (HeadsOf(saved.model) != HeadsOf(config.model)) {
    reasons["heads"] =
        fmt::format("the model has {}, the checkpoint's has {}", HeadsOf(config.model), HeadsOf(saved.model));
  }
  if (const std::string reason = OptimizerReason(saved, config, missing, unwanted); !weights_only && !reason.empty()) {
    reasons["optimizer"] = reason;
  }
  std::vector<DroppedState> dropped;
  for (const char* part : kParts) {
    if (const auto found = reasons.find(part); found != reasons.end()) {
      dropped.push_back({.part = part, .reason = found->second});
    }
  }
  return dropped;
}

std::set<std::string> ParseDropState(const std::string& text) {
  std::set<std::string> parts;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string part(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    Require(std::find(kParts.begin(), kParts.end(), part) != kParts.end(),
            "--drop-state: '{}' is no part of a checkpoint's state; known: {}", part, fmt::join(kParts, ", "));
    parts.insert(part);
  }
  return parts;
}

std::string ToText(const std::vector<DroppedState>& dropped) {
  std::string text;
  for (const DroppedState& each : dropped) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", each.part, each.reason);
  }
  return text;
}

void RequireStateKept(const Manifest& manifest, const std::string& folder, const RunConfig& config,
                      const std::set<std::string>& allowed) {
  std::vector<DroppedState> refused = FindDroppedState(manifest, folder, config);
  std::vector<std::string> parts;
  for (const DroppedState& each : refused) {
    parts.push_back(each.part);
  }
  std::erase_if(refused, [&](const DroppedState& each) { return allowed.count(each.part) > 0; });
  Require(refused.empty(),
          "going on from '{}' with this recipe would drop trained state: {}. Resume with the recipe of the checkpoint, "
          "give another --run and start from its weights with model.from, or say that it may be lost: --drop-state {}",
          folder, ToText(refused), fmt::join(parts, ","));
}

void RequireStateKept(const std::string& checkpoints, const RunConfig& config, const std::set<std::string>& allowed) {
  if (const std::optional<FoundManifest> found = FindNewestManifest(checkpoints)) {
    RequireStateKept(found->manifest, found->checkpoint.path, config, allowed);
  }
}

}  // namespace trireme
