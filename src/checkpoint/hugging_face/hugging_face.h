// Hugging Face model directories, both ways: config.json, model.safetensors or its shards with an index. Families:
// hugging_face/families.h. Master weights only, fp32 or bf16; fp32 comes back bit for bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/tools/reports.h"
#include "model/model_config.h"

namespace trireme {

// No config.json is larger.
inline constexpr std::int64_t kLargestHuggingFaceConfig = 16 << 20;

// The model that a directory's config.json describes. What this program cannot compute alike (another activation,
// biases in Llama, rotary positions scaled dynamically) is an Error that names the key.
ModelConfig ReadHuggingFaceConfig(const std::string& directory);
ModelConfig ParseHuggingFaceConfig(const std::string& text, const std::string& origin);
// Keys of a config.json that ParseHuggingFaceConfig does not use, but for those that say nothing of the mathematics.
std::vector<std::string> UnusedConfigKeys(const std::string& text, const std::string& origin);
// config.json for a model; an Error when the architecture cannot say it. `dtype` is "fp32" or "bf16".
std::string FormatHuggingFaceConfig(const ModelConfig& model, const std::string& dtype);

struct ExportOptions {
  std::string dtype = "fp32";  // fp32 | bf16
  std::int64_t shard_bytes = 50'000'000'000;
  bool merge = false;  // adds LoRA adapters to the matrices; without it a checkpoint that has some is an Error
};
// Writes a checkpoint's weights as a new directory, which must not exist, with the tokenizer that goes with them where
// one is found.
Report ExportHuggingFace(const std::string& path, const std::string& directory, const ExportOptions& options = {});

// Writes the LoRA adapters of a checkpoint alone, as PEFT reads them: adapter_model.safetensors (fp32) and
// adapter_config.json in a new directory, which must not exist.
Report ExportAdapter(const std::string& path, const std::string& directory);

// Writes a directory's weights as folder/step-000000, a checkpoint without optimizer state that any layout can load;
// the tokenizer's files go to `folder`. The report names tensors and keys of config.json that were not used.
Report ImportHuggingFace(const std::string& directory, const std::string& folder);

}  // namespace trireme
