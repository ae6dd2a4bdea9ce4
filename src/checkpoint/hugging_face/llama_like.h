// What the families whose Hugging Face form is Llama's say alike, for the files that read and write them.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/hugging_face/families.h"

namespace trireme::llama_like {

struct Defaults {
  double norm_epsilon = 1e-6;
  double rope_theta = 10000;
  bool tied = false;
  std::int64_t head_dim = 0;
  const char* activation = "silu";
};

ModelConfig ParseShared(const ConfigKeys& keys, const char* family, const Defaults& defaults);
// Windows of Qwen's models with experts, whose layers are alike.
void ParseQwenWindows(const ConfigKeys& keys, ModelConfig& model);

nlohmann::json FormatShared(const ModelConfig& model, const char* architecture);
nlohmann::json FormatQwen(const ModelConfig& model, const char* architecture);
nlohmann::json WindowJson(const ModelConfig& model);

// What Granite's models have alike, with and without experts: Llama's keys and four multipliers.
ModelConfig ParseGraniteShared(const ConfigKeys& keys);
nlohmann::json FormatGraniteShared(const ModelConfig& model, const char* architecture);

// Adds the feed-forward part of a layer with experts; `at`: what names of the layer begin with.
using ExpertLister = std::function<void(std::int64_t layer, const std::string& at, TensorList& list)>;
// fused: query, key and value are one tensor, gate and up one.
void ListTensors(const ParameterTable& table, bool fused, TensorList& list, const ExpertLister& experts);

}  // namespace trireme::llama_like
