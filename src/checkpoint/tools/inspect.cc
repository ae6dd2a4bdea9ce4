#include <bit>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/format/model_json.h"
#include "checkpoint/format/shape_json.h"
#include "checkpoint/read/checkpoint_folder.h"
#include "checkpoint/tools/reports.h"

namespace trireme {
namespace {

using nlohmann::json;

Digest CombineDigests(const RunState& state, const std::vector<StoredTensor>& tensors,
                      const std::vector<Digest>& digests) {
  Hasher hasher;
  hasher.AddText("trireme-state-1");
  hasher.AddNumber(state.step);
  hasher.AddNumber(state.consumed_samples);
  hasher.AddNumber(state.updates);
  hasher.AddNumber(std::bit_cast<std::int64_t>(state.loss_scale));
  hasher.AddNumber(state.seed);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const ManifestTensor& tensor = tensors[i].about;
    hasher.AddText(tensor.kind);
    hasher.AddText(tensor.name);
    hasher.AddText(tensor.shape.ToString());
    hasher.AddText(ToHex(digests[i]));
  }
  return hasher.digest();
}

std::vector<Digest> DigestsOfTensors(const CheckpointReader& reader) {
  std::vector<Digest> digests;
  for (const StoredTensor& tensor : reader.tensors()) {
    digests.push_back(reader.DigestOfTensor(tensor));
  }
  return digests;
}

std::int64_t BytesOf(const CheckpointReader& reader) {
  std::int64_t bytes = 0;
  for (const ManifestShard& shard : reader.manifest().shards) {
    bytes += shard.bytes;
  }
  return bytes;
}

std::int64_t ParametersOf(const CheckpointReader& reader) {
  std::int64_t count = 0;
  for (const StoredTensor& tensor : reader.tensors()) {
    count += tensor.about.kind == kMasterKind ? tensor.about.shape.count() : 0;
  }
  return count;
}

json StateJson(const CheckpointReader& reader) {
  const RunState& state = reader.manifest().state;
  json keys = json::object();
  for (const KeyValue& key : state.keys) {
    keys[key.key] = key.value;
  }
  return {{"folder", reader.folder()},
          {"step", state.step},
          {"consumed_samples", state.consumed_samples},
          {"updates", state.updates},
          {"loss_scale", state.loss_scale},
          {"seed", state.seed},
          {"program", state.program},
          {"saved_at", state.saved_at},
          {"layout", state.layout},
          {"ranks", state.ranks},
          {"shards", reader.manifest().shards.size()},
          {"bytes", BytesOf(reader)},
          {"parameters", ParametersOf(reader)},
          {"model", ModelJson(state.model)},
          {"config", keys},
          {"notes", state.notes}};
}

std::string StateText(const CheckpointReader& reader) {
  const RunState& state = reader.manifest().state;
  const ModelConfig& model = state.model;
  return fmt::format(
      "{}\n"
      "  step {}, {} samples consumed, loss scale {}, seed {}\n"
      "  saved {} by {}, {} ranks ({})\n"
      "  {}: {} layers, hidden {}, {} heads, vocabulary {}; {} parameters\n"
      "  {} tensors in {} shards, {} bytes\n\n",
      reader.folder(), state.step, state.consumed_samples, state.loss_scale, state.seed, state.saved_at, state.program,
      state.ranks, state.layout, model.family, model.layers, model.hidden, model.heads, model.vocabulary,
      ParametersOf(reader), reader.tensors().size(), reader.manifest().shards.size(), BytesOf(reader));
}

}  // namespace

Digest DigestOfState(const CheckpointReader& reader) {
  return CombineDigests(reader.manifest().state, reader.tensors(), DigestsOfTensors(reader));
}

Report InspectCheckpoint(const std::string& path) {
  const CheckpointReader reader(ResolveCheckpoint(path));
  const std::vector<Digest> digests = DigestsOfTensors(reader);
  const std::string whole = ToHex(CombineDigests(reader.manifest().state, reader.tensors(), digests));
  json root = StateJson(reader);
  std::string text = StateText(reader);
  text += fmt::format("  {:<14} {:<40} {:<18} {}\n", "kind", "tensor", "shape", "digest");
  json tensors = json::array();
  for (std::size_t i = 0; i < digests.size(); ++i) {
    const ManifestTensor& tensor = reader.tensors()[i].about;
    const std::string digest = ToHex(digests[i]);
    text += fmt::format("  {:<14} {:<40} {:<18} {}\n", tensor.kind, tensor.name, tensor.shape.ToString(), digest);
    tensors.push_back({{"name", tensor.name},
                       {"kind", tensor.kind},
                       {"shape", Extents(tensor.shape)},
                       {"dtype", "fp32"},
                       {"digest", digest}});
  }
  root["tensors"] = std::move(tensors);
  root["digest"] = whole;
  text += fmt::format("\n  digest of the whole state: {}\n", whole);
  return {.status = 0, .text = text, .json = JsonText(root, {.indent = 1})};
}

}  // namespace trireme
