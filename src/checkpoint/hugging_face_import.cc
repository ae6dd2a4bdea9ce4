#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/hugging_face.h"
#include "checkpoint/hugging_face_files.h"
#include "checkpoint/hugging_face_tensors.h"
#include "checkpoint/stream_save.h"
#include "data/json_file.h"

namespace trireme {
namespace {

constexpr std::string_view kOptionalPrefix = "transformer.";
constexpr std::int64_t kLargestConfig = 16 << 20;

// Buffers that old files carry beside the weights.
bool IsBuffer(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

// The name under which the files hold a tensor: hub files of GPT-2 and BLOOM lack the prefix.
std::string NameIn(const HuggingFaceFiles& files, const std::string& name) {
  if (files.Find(name) == nullptr && name.starts_with(kOptionalPrefix)) {
    return name.substr(kOptionalPrefix.size());
  }
  return name;
}

void RequireSameTensors(const HuggingFaceFiles& files, const std::vector<HuggingFaceTensor>& tensors, bool tied,
                        const std::string& directory) {
  std::vector<std::string> used;
  for (const HuggingFaceTensor& tensor : tensors) {
    used.push_back(NameIn(files, tensor.name));
    const SafetensorsEntry* entry = files.Find(used.back());
    Require(entry != nullptr, "'{}' lacks the tensor '{}'", directory, tensor.name);
    Require(entry->shape == tensor.shape, "'{}': '{}' has the shape {}, the model of config.json has {}", directory,
            tensor.name, nlohmann::json(entry->shape).dump(), nlohmann::json(tensor.shape).dump());
  }
  std::sort(used.begin(), used.end());
  for (const std::string& name : files.names()) {
    const bool known =
        std::binary_search(used.begin(), used.end(), name) || IsBuffer(name) || (tied && name == "lm_head.weight");
    Require(known, "'{}' holds '{}', which no {} has", directory, name, "model of its config.json");
  }
}

// Rebuilds one parameter at a time from the tensors that lie in it.
class ParameterSourceOfFiles {
 public:
  ParameterSourceOfFiles(const HuggingFaceFiles& files, const ParameterTable& table,
                         const std::vector<HuggingFaceTensor>& tensors)
      : files_(files), table_(table), tensors_(tensors) {}

  void Read(int row, std::int64_t first, std::span<float> out) {
    if (row != row_) {
      Load(row);
    }
    std::copy_n(values_.data() + first, out.size(), out.data());
  }

 private:
  void Load(int row) {
    values_.assign(static_cast<std::size_t>(table_.rows()[static_cast<std::size_t>(row)].shape.count()), 0.0F);
    for (const HuggingFaceTensor& tensor : tensors_) {
      if (tensor.row == row) {
        FromHuggingFace(table_.config(), tensor, files_.Read(NameIn(files_, tensor.name)), values_);
      }
    }
    row_ = row;
  }

  const HuggingFaceFiles& files_;
  const ParameterTable& table_;
  const std::vector<HuggingFaceTensor>& tensors_;
  std::vector<float> values_;
  int row_ = -1;
};

RunState FirstState(const ModelConfig& model, const std::string& directory) {
  RunConfig config;
  config.model = model;
  RunState state;
  state.model = model;
  state.seed = config.train.seed;
  state.layout = "imported";
  state.recipe = ToToml(config);
  for (const KeyValue& key : Flatten(config)) {
    if (key.key.starts_with("model.")) {
      state.keys.push_back(key);
    }
  }
  // Kept so that an export of the same weights gives the file back.
  state.notes["hugging_face_config"] = ReadBoundedFile(directory + "/config.json", kLargestConfig);
  return state;
}

}  // namespace

Report ImportHuggingFace(const std::string& directory, const std::string& folder) {
  const ModelConfig model = ReadHuggingFaceConfig(directory);
  const ParameterTable table(model);
  const HuggingFaceFiles files(directory);
  const std::vector<HuggingFaceTensor> tensors = HuggingFaceTensors(table);
  RequireSameTensors(files, tensors, model.tie_embeddings, directory);
  StreamSave save{.folder = folder, .state = FirstState(model, directory)};
  for (const Parameter& parameter : table.rows()) {
    save.tensors.push_back({.name = parameter.name, .kind = kMasterKind, .shape = parameter.shape});
  }
  ParameterSourceOfFiles source(files, table, tensors);
  save.read = [&](std::size_t index, std::int64_t first, std::span<float> out) {
    source.Read(static_cast<int>(index), first, out);
  };
  const std::string written = SaveStream(save);
  const nlohmann::json root = {{"from", directory}, {"to", written}, {"parameters", ParameterCount(model)}};
  return {.status = 0,
          .text = fmt::format("{} -> {}: {}, {} parameters\n", directory, written, model.family, ParameterCount(model)),
          .json = root.dump(1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

}  // namespace trireme
