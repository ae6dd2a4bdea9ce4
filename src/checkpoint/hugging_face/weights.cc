#include "checkpoint/hugging_face/weights.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/hugging_face/families.h"
#include "checkpoint/hugging_face/hugging_face.h"

namespace trireme {
namespace {

constexpr std::string_view kOptionalPrefix = "transformer.";

// Buffers that old files carry beside the weights.
bool IsBuffer(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".attention.bias") ||
         name.ends_with(".attention.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

// The name under which the files hold a tensor: hub files of GPT-2 and BLOOM lack the prefix.
std::string NameIn(const HuggingFaceFiles& files, const std::string& name) {
  if (files.Find(name) == nullptr && name.starts_with(kOptionalPrefix)) {
    return name.substr(kOptionalPrefix.size());
  }
  return name;
}

// Elements of [first, last) that a run asks for.
struct Overlap {
  std::int64_t first = 0;
  std::int64_t last = 0;
  bool empty() const { return first >= last; }
};

Overlap OverlapOf(const SliceRun& run, std::int64_t first, std::int64_t last) {
  return {std::max(run.global, first), std::min(run.global + run.count, last)};
}

ExpertTensors FormOf(const HuggingFaceFiles& files) {
  const std::vector<std::string> names = files.names();
  const auto is_fused = [](const std::string& name) { return name.ends_with(".experts.gate_up_proj"); };
  return std::any_of(names.begin(), names.end(), is_fused) ? ExpertTensors::kFused : ExpertTensors::kEach;
}

}  // namespace

HuggingFaceWeights::HuggingFaceWeights(const std::string& directory)
    : directory_(directory),
      table_(ReadHuggingFaceConfig(directory)),
      files_(directory),
      tensors_(HuggingFaceTensors(table_, FormOf(files_))) {
  RequireSameTensors();
}

void HuggingFaceWeights::RequireSameTensors() {
  std::vector<std::string> used;
  for (const HuggingFaceTensor& tensor : tensors_) {
    used.push_back(NameIn(files_, tensor.name));
    const SafetensorsEntry* entry = files_.Find(used.back());
    Require(entry != nullptr, "'{}' lacks the tensor '{}'", directory_, tensor.name);
    Require(entry->shape == tensor.shape, "'{}': '{}' has the shape {}, the model of config.json has {}", directory_,
            tensor.name, JsonText(nlohmann::json(entry->shape)), JsonText(nlohmann::json(tensor.shape)));
  }
  std::sort(used.begin(), used.end());
  const bool tied = model().tie_embeddings;
  const std::string& output = HuggingFaceFamilyOf(model()).output;
  for (const std::string& name : files_.names()) {
    if (std::binary_search(used.begin(), used.end(), name)) {
      continue;
    }
    unused_.push_back(name);
    Require(IsBuffer(name) || (tied && (name == output || name == "lm_head.weight")),
            "'{}' holds '{}', which no model of its config.json has", directory_, name);
  }
}

void HuggingFaceWeights::Read(const Parameter& parameter, std::span<const SliceRun> runs, float* out) const {
  const int row = table_.Find(parameter.name);
  Require(row >= 0, "'{}' has no parameter '{}'", directory_, parameter.name);
  RequireShapeOf(parameter, table_.rows()[static_cast<std::size_t>(row)].shape, directory_);
  for (const HuggingFaceTensor& tensor : tensors_) {
    if (tensor.row != row) {
      continue;
    }
    if (tensor.order == TensorOrder::kRows) {
      ReadRows(tensor, runs, out);
    } else {
      ReadReordered(tensor, runs, out);
    }
  }
}

// One read of the stretch that holds all runs: a rank's rows of a matrix, or the whole when it holds columns.
void HuggingFaceWeights::ReadRows(const HuggingFaceTensor& tensor, std::span<const SliceRun> runs, float* out) const {
  const std::int64_t columns = tensor.columns();
  const std::int64_t begin = tensor.first_row * columns;
  const std::int64_t end = begin + tensor.count();
  Overlap stretch{end, begin};
  for (const SliceRun& run : runs) {
    if (const Overlap part = OverlapOf(run, begin, end); !part.empty()) {
      stretch = {std::min(stretch.first, part.first), std::max(stretch.last, part.last)};
    }
  }
  if (stretch.empty()) {
    return;
  }
  std::vector<float> values(static_cast<std::size_t>(stretch.last - stretch.first));
  files_.Read(NameIn(files_, tensor.name), stretch.first - begin, values);
  for (const SliceRun& run : runs) {
    if (const Overlap part = OverlapOf(run, begin, end); !part.empty()) {
      std::copy(values.begin() + (part.first - stretch.first), values.begin() + (part.last - stretch.first),
                out + run.local + (part.first - run.global));
    }
  }
}

void HuggingFaceWeights::ReadReordered(const HuggingFaceTensor& tensor, std::span<const SliceRun> runs,
                                       float* out) const {
  std::vector<float> theirs(static_cast<std::size_t>(tensor.count()));
  files_.Read(NameIn(files_, tensor.name), 0, theirs);
  std::vector<float> ours(theirs.size());
  FromHuggingFace(model(), tensor, theirs, ours);
  for (const SliceRun& run : runs) {
    std::copy_n(ours.begin() + run.global, run.count, out + run.local);
  }
}

}  // namespace trireme
