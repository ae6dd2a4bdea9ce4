#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/dtype.h"
#include "base/durable_file.h"
#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/hugging_face/hugging_face.h"
#include "checkpoint/hugging_face/safetensors.h"
#include "checkpoint/hugging_face/tensors.h"
#include "checkpoint/read/checkpoint_folder.h"
#include "checkpoint/read/merged_weights.h"
#include "checkpoint/tools/tokenizer_places.h"
#include "data/tokenizer/tokenizer_folder.h"

namespace trireme {
namespace {

using nlohmann::json;

// One file of the result: its tensors in the order that the reference implementation writes (by name).
struct FilePlan {
  std::string name;
  std::vector<const HuggingFaceTensor*> tensors;
  std::int64_t bytes = 0;
};

std::vector<FilePlan> PlanFiles(const std::vector<HuggingFaceTensor>& tensors, std::int64_t element,
                                std::int64_t shard_bytes) {
  std::vector<FilePlan> files(1);
  for (const HuggingFaceTensor& tensor : tensors) {
    const std::int64_t bytes = tensor.count() * element;
    if (files.back().bytes > 0 && files.back().bytes + bytes > shard_bytes) {
      files.emplace_back();
    }
    files.back().tensors.push_back(&tensor);
    files.back().bytes += bytes;
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    files[i].name =
        files.size() == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
    std::sort(files[i].tensors.begin(), files[i].tensors.end(),
              [](const auto* a, const auto* b) { return a->name < b->name; });
  }
  return files;
}

class Exporter {
 public:
  Exporter(const WeightSource& weights, const ParameterTable& table, const ExportOptions& options)
      : weights_(weights), table_(table), bfloat_(options.dtype == "bf16") {
    Require(bfloat_ || options.dtype == "fp32", "the dtype of an export is fp32 or bf16, not '{}'", options.dtype);
  }

  std::int64_t element_bytes() const { return bfloat_ ? 2 : 4; }

  void WriteFile(const FilePlan& plan, const std::string& directory) {
    std::vector<SafetensorsEntry> entries;
    std::int64_t offset = 0;
    for (const HuggingFaceTensor* tensor : plan.tensors) {
      const std::int64_t end = offset + tensor->count() * element_bytes();
      entries.push_back({.name = tensor->name,
                         .dtype = bfloat_ ? "BF16" : "F32",
                         .shape = tensor->shape,
                         .begin = offset,
                         .end = end});
      offset = end;
    }
    DurableFile file(directory + "/" + plan.name);
    file.Append(FormatSafetensorsHeader({{"format", "pt"}}, entries));
    for (const HuggingFaceTensor* tensor : plan.tensors) {
      WriteTensor(*tensor, file);
    }
    file.Close();
  }

 private:
  void WriteTensor(const HuggingFaceTensor& tensor, DurableFile& file) const {
    const Parameter& parameter = table_.rows()[static_cast<std::size_t>(tensor.row)];
    std::vector<float> theirs(static_cast<std::size_t>(tensor.count()));
    if (tensor.order == TensorOrder::kRows) {  // one of many experts is read alone
      const SliceRun run{.global = tensor.first_row * tensor.columns(), .count = tensor.count()};
      weights_.Read(parameter, {&run, 1}, theirs.data());
    } else {
      std::vector<float> ours(static_cast<std::size_t>(parameter.shape.count()));
      const SliceRun run{.count = parameter.shape.count()};
      weights_.Read(parameter, {&run, 1}, ours.data());
      ToHuggingFace(table_.config(), tensor, ours, theirs);
    }
    if (!bfloat_) {
      file.Append(std::as_bytes(std::span(theirs)));
      return;
    }
    std::vector<BFloat16> narrow(theirs.size());
    std::transform(theirs.begin(), theirs.end(), narrow.begin(), [](float value) { return BFloat16(value); });
    file.Append(std::as_bytes(std::span(narrow)));
  }

  const WeightSource& weights_;
  const ParameterTable& table_;
  bool bfloat_;
};

std::string IndexText(const std::vector<FilePlan>& files) {
  json weight_map = json::object();
  std::int64_t bytes = 0;
  for (const FilePlan& file : files) {
    bytes += file.bytes;
    for (const HuggingFaceTensor* tensor : file.tensors) {
      weight_map[tensor->name] = file.name;
    }
  }
  const json root = {{"metadata", {{"total_size", bytes}}}, {"weight_map", weight_map}};
  return JsonText(root, {.indent = 2}) + "\n";
}

// The file that the weights came with, where it still describes them; a new one otherwise.
std::string ConfigText(const RunState& state, const ModelConfig& model, const std::string& dtype) {
  const auto note = state.notes.find("hugging_face_config");
  if (note != state.notes.end()) {
    try {
      const json config = ParseJson(note->second);
      const char* key = config.contains("dtype") ? "dtype" : "torch_dtype";
      const bool same_dtype = config.value(key, "float32") == (dtype == "bf16" ? "bfloat16" : "float32");
      if (same_dtype && ParseHuggingFaceConfig(note->second, "hugging_face_config") == model) {
        return note->second;
      }
    } catch (const std::exception&) {
      // A note that is no configuration decides nothing.
    }
  }
  return FormatHuggingFaceConfig(model, dtype);
}

void WriteText(const std::string& path, const std::string& text) {
  DurableFile file(path);
  file.Append(text);
  file.Close();
}

}  // namespace

Report ExportHuggingFace(const std::string& path, const std::string& directory, const ExportOptions& options) {
  const CheckpointReader reader(ResolveCheckpoint(path));
  const RunState& state = reader.manifest().state;
  const std::unique_ptr<WeightSource> weights = OpenWithoutAdapters(path, options.merge);
  const ParameterTable table(weights->model());
  const std::vector<HuggingFaceTensor> tensors = HuggingFaceTensors(table);
  Exporter exporter(*weights, table, options);
  const std::string config = ConfigText(state, weights->model(), options.dtype);
  const std::string tokenizer = FindTokenizerOf({.path = path, .checkpoint = reader.folder(), .state = state});
  const auto files = PlanFiles(tensors, exporter.element_bytes(), options.shard_bytes);
  Require(!std::filesystem::exists(directory), "'{}' exists already", directory);
  const std::string unfinished = MakeTemporaryFolder(directory);
  try {
    for (const FilePlan& file : files) {
      exporter.WriteFile(file, unfinished);
    }
    if (files.size() > 1) {
      WriteText(unfinished + "/model.safetensors.index.json", IndexText(files));
    }
    WriteText(unfinished + "/config.json", config);
    if (!tokenizer.empty()) {
      CopyTokenizer(tokenizer, unfinished, Links::kRefused);
    }
    SyncDirectory(unfinished);
    MoveToFreeName(unfinished, directory);
  } catch (...) {
    RemoveTree(unfinished);
    throw;
  }
  const json root = {{"from", reader.folder()}, {"to", directory},        {"tensors", tensors.size()},
                     {"files", files.size()},   {"tokenizer", tokenizer}, {"dtype", options.dtype}};
  return {.status = 0,
          .text = fmt::format(
              "{} -> {}: {} tensors in {} files, {}; {}\n", reader.folder(), directory, tensors.size(), files.size(),
              options.dtype,
              tokenizer.empty() ? "no tokenizer was found to go with it" : fmt::format("tokenizer of '{}'", tokenizer)),
          .json = JsonText(root, {.indent = 1})};
}

}  // namespace trireme
