// LoRA adapters in PEFT's form: adapter_model.safetensors and adapter_config.json.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/hugging_face/hugging_face.h"
#include "checkpoint/hugging_face/safetensors.h"
#include "checkpoint/hugging_face/tensors.h"
#include "checkpoint/read/checkpoint_folder.h"
#include "checkpoint/read/merged_weights.h"

namespace trireme {
namespace {

using nlohmann::json;

// A tensor of theirs with an adapter of ours.
struct AdaptedModule {
  std::string name;  // "model.layers.0.self_attn.q_proj"
  HuggingFaceTensor tensor;
  AdapterRows rows;
};

struct FileTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

std::string ModuleOf(const HuggingFaceTensor& tensor) {
  return tensor.name.substr(0, tensor.name.size() - std::string(".weight").size());
}

// "q_proj", or with `parts` = 2 "self_attn.q_proj".
std::string Ending(const std::string& module, int parts) {
  std::size_t at = module.size();
  while (parts-- > 0 && at != std::string::npos && at > 0) {
    at = module.rfind('.', at - 1);
  }
  return at == std::string::npos ? module : module.substr(at + 1);
}

bool IsMatrix(const HuggingFaceTensor& tensor) { return tensor.shape.size() == 2 && tensor.name.ends_with(".weight"); }

// PEFT looks for modules by the ends of their names: the shortest ends that name no other module.
std::vector<std::string> TargetModules(const std::vector<HuggingFaceTensor>& tensors,
                                       const std::vector<AdaptedModule>& adapted) {
  std::set<std::string> targets;
  for (const AdaptedModule& module : adapted) {
    int parts = 1;
    const auto names_another = [&](const HuggingFaceTensor& tensor) {
      return IsMatrix(tensor) && Ending(ModuleOf(tensor), parts) == Ending(module.name, parts) &&
             std::none_of(adapted.begin(), adapted.end(),
                          [&](const AdaptedModule& other) { return other.tensor.name == tensor.name; });
    };
    while (parts < 8 && std::any_of(tensors.begin(), tensors.end(), names_another)) {
      ++parts;
    }
    targets.insert(Ending(module.name, parts));
  }
  return {targets.begin(), targets.end()};
}

class AdapterWriter {
 public:
  explicit AdapterWriter(const WeightSource& weights)
      : weights_(weights), table_(weights.model()), tensors_(HuggingFaceTensors(table_)) {
    for (const HuggingFaceTensor& tensor : tensors_) {
      const AdapterRows rows = AdapterOf(table_, table_.rows()[static_cast<std::size_t>(tensor.row)]);
      if (rows.a >= 0) {
        adapted_.push_back({ModuleOf(tensor), tensor, rows});
      }
    }
  }

  std::size_t modules() const { return adapted_.size(); }

  std::string Config(const std::string& base) const {
    const AdapterConfig& adapter = table_.config().adapter;
    const double alpha = adapter.scale() * static_cast<double>(adapter.rank);
    const bool whole = alpha == std::floor(alpha);
    const bool transposed = std::any_of(adapted_.begin(), adapted_.end(), [](const AdaptedModule& module) {
      return module.tensor.order == TensorOrder::kTransposed;
    });
    const json root = {{"peft_type", "LORA"},
                       {"task_type", "CAUSAL_LM"},
                       {"base_model_name_or_path", base.empty() ? json(nullptr) : json(base)},
                       {"revision", nullptr},
                       {"inference_mode", true},
                       {"r", adapter.rank},
                       {"lora_alpha", whole ? json(static_cast<std::int64_t>(alpha)) : json(alpha)},
                       {"lora_dropout", 0.0},
                       {"bias", "none"},
                       {"fan_in_fan_out", transposed},
                       {"target_modules", TargetModules(tensors_, adapted_)},
                       {"modules_to_save", nullptr},
                       {"layers_to_transform", nullptr},
                       {"layers_pattern", nullptr},
                       {"rank_pattern", json::object()},
                       {"alpha_pattern", json::object()},
                       {"init_lora_weights", true},
                       {"use_rslora", false},
                       {"use_dora", false}};
    return JsonText(root, {.indent = 2}) + "\n";
  }

  void WriteTensors(const std::string& path) const {
    std::vector<FileTensor> files = Tensors();
    std::sort(files.begin(), files.end(), [](const FileTensor& a, const FileTensor& b) { return a.name < b.name; });
    std::vector<SafetensorsEntry> entries;
    std::int64_t offset = 0;
    for (const FileTensor& tensor : files) {
      const std::int64_t end = offset + static_cast<std::int64_t>(tensor.values.size() * sizeof(float));
      entries.push_back({.name = tensor.name, .dtype = "F32", .shape = tensor.shape, .begin = offset, .end = end});
      offset = end;
    }
    DurableFile file(path);
    file.Append(FormatSafetensorsHeader({{"format", "pt"}}, entries));
    for (const FileTensor& tensor : files) {
      file.Append(std::as_bytes(std::span(tensor.values)));
    }
    file.Close();
  }

 private:
  const Parameter& Row(int row) const { return table_.rows()[static_cast<std::size_t>(row)]; }

  std::vector<float> Whole(int row) const {
    std::vector<float> values(static_cast<std::size_t>(Row(row).shape.count()));
    const SliceRun run{.count = Row(row).shape.count()};
    weights_.Read(Row(row), {&run, 1}, values.data());
    return values;
  }

  // Where several of their matrices are one of ours, each has all of A and its own rows of B.
  std::vector<FileTensor> Tensors() const {
    std::vector<FileTensor> files;
    for (const AdaptedModule& module : adapted_) {
      const std::string name = "base_model.model." + module.name;
      const Shape& a = Row(module.rows.a).shape;
      files.push_back({name + ".lora_A.weight", {a[0], a[1]}, Whole(module.rows.a)});
      HuggingFaceTensor rows = module.tensor;  // outputs of B in their order
      const bool transposed = rows.order == TensorOrder::kTransposed;
      rows.shape = {rows.shape[transposed ? 1 : 0], a[0]};
      rows.order = transposed ? TensorOrder::kRows : rows.order;
      std::vector<float> theirs(static_cast<std::size_t>(rows.count()));
      ToHuggingFace(table_.config(), rows, Whole(module.rows.b), theirs);
      files.push_back({name + ".lora_B.weight", rows.shape, std::move(theirs)});
    }
    return files;
  }

  const WeightSource& weights_;
  ParameterTable table_;
  std::vector<HuggingFaceTensor> tensors_;
  std::vector<AdaptedModule> adapted_;
};

// What model.from of the run's recipe names.
std::string BaseOf(const RunState& state) {
  for (const KeyValue& key : state.keys) {
    if (key.key == "model.from" && key.value.size() > 2) {
      return key.value.substr(1, key.value.size() - 2);  // quoted
    }
  }
  return "";
}

}  // namespace

Report ExportAdapter(const std::string& path, const std::string& directory) {
  const CheckpointReader reader(ResolveCheckpoint(path));
  const std::unique_ptr<WeightSource> weights = OpenWeights(path);
  Require(weights->model().adapter.any(), "'{}' has no LoRA adapters: it was trained without lora.rank", path);
  const AdapterWriter writer(*weights);
  const std::string base = BaseOf(reader.manifest().state);
  Require(!std::filesystem::exists(directory), "'{}' exists already", directory);
  const std::string unfinished = MakeTemporaryFolder(directory);
  try {
    writer.WriteTensors(unfinished + "/adapter_model.safetensors");
    DurableFile config(unfinished + "/adapter_config.json");
    config.Append(writer.Config(base));
    config.Close();
    SyncDirectory(unfinished);
    MoveToFreeName(unfinished, directory);
  } catch (...) {
    RemoveTree(unfinished);
    throw;
  }
  const json root = {{"from", reader.folder()},
                     {"to", directory},
                     {"modules", writer.modules()},
                     {"base", base},
                     {"format", "peft_adapter"}};
  return {.status = 0,
          .text = fmt::format("{} -> {}: adapters of {} modules in PEFT's form, fp32\n", reader.folder(), directory,
                              writer.modules()),
          .json = JsonText(root, {.indent = 1})};
}

}  // namespace trireme
