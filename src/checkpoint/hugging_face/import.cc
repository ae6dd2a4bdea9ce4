#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/hugging_face/hugging_face.h"
#include "checkpoint/hugging_face/weights.h"
#include "checkpoint/save/stream_save.h"
#include "data/files/json_file.h"
#include "data/tokenizer/tokenizer_folder.h"

namespace trireme {
namespace {

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
  state.notes["hugging_face_config"] = ReadBoundedFile(directory + "/config.json", kLargestHuggingFaceConfig);
  return state;
}

// A line that names what was left out; none when nothing was.
std::string NotUsed(const char* what, const std::vector<std::string>& names) {
  if (names.empty()) {
    return "";
  }
  constexpr std::size_t kShown = 8;
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    list += (i == 0 ? "" : ", ") + names[i];
  }
  return fmt::format("not used: {} {} ({}{})\n", names.size(), what, list, names.size() > kShown ? ", …" : "");
}

}  // namespace

Report ImportHuggingFace(const std::string& directory, const std::string& folder) {
  const HuggingFaceWeights weights(directory);
  const ModelConfig& model = weights.model();
  StreamSave save{.folder = folder, .state = FirstState(model, directory)};
  for (const Parameter& parameter : weights.table().rows()) {
    save.tensors.push_back({.name = parameter.name, .kind = kMasterKind, .shape = parameter.shape});
  }
  std::vector<float> values;
  std::size_t held = save.tensors.size();
  save.read = [&](std::size_t index, std::int64_t first, std::span<float> out) {
    if (index != held) {
      const Parameter& parameter = weights.table().rows()[index];
      values.resize(static_cast<std::size_t>(parameter.shape.count()));
      weights.Read(parameter, std::array{SliceRun{.count = parameter.shape.count()}}, values.data());
      held = index;
    }
    std::copy_n(values.begin() + first, out.size(), out.begin());
  };
  const std::string written = SaveStream(save);
  CopyTokenizer(directory, folder);
  const std::string path = directory + "/config.json";
  const std::vector<std::string> keys = UnusedConfigKeys(ReadBoundedFile(path, kLargestHuggingFaceConfig), path);
  const nlohmann::json root = {{"from", directory},
                               {"to", written},
                               {"parameters", ParameterCount(model)},
                               {"unused_tensors", weights.unused()},
                               {"unused_keys", keys}};
  return {
      .status = 0,
      .text = fmt::format("{} -> {}: {}, {} parameters\n{}{}", directory, written, model.family, ParameterCount(model),
                          NotUsed("tensors", weights.unused()), NotUsed("keys of config.json", keys)),
      .json = JsonText(root, {.indent = 1})};
}

}  // namespace trireme
