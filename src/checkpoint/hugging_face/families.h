// The families that have a Hugging Face form: how a config.json says such a model and which tensors it has. One file
// for each, or for those that share their form.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/hugging_face/config_keys.h"
#include "checkpoint/hugging_face/tensor_list.h"
#include "model/model_config.h"

namespace trireme {

struct HuggingFaceFamily {
  std::string model_type;  // of config.json
  std::string family;      // ours
  // The user's fields of a model; Completed is called on the result. What this program does not compute is an Error.
  ModelConfig (*parse)(const ConfigKeys& keys);
  // What the family says of a model beyond dtype and tied output. An Error when it cannot say it.
  nlohmann::json (*format)(const ModelConfig& model);
  // All tensors in the order of modules, but for a tied output.
  void (*list)(const ParameterTable& table, TensorList& list);
  std::string output = "lm_head.weight";  // an output that is not tied
  bool experts = false;                   // its models have experts: ModelConfig::experts
};

const std::vector<HuggingFaceFamily>& HuggingFaceFamilies();
// By our name and whether the model has experts, or by model_type. An Error names the known ones.
const HuggingFaceFamily& HuggingFaceFamilyOf(const ModelConfig& model);
const HuggingFaceFamily& HuggingFaceFamilyOf(const std::string& model_type, const std::string& origin);

// The families of each file.
HuggingFaceFamily HuggingFaceGpt2();
HuggingFaceFamily HuggingFaceBloom();
HuggingFaceFamily HuggingFaceGptNeoX();
HuggingFaceFamily HuggingFaceOpt();
HuggingFaceFamily HuggingFaceMpt();
// Llama, Mistral, Qwen2, Qwen3, Gemma 2, Gemma 3, OLMo 2, Phi-3, Nemotron.
std::vector<HuggingFaceFamily> HuggingFaceLlamaLike();
// SmolLM3, OLMo 3, Granite.
std::vector<HuggingFaceFamily> HuggingFaceLlamaVariants();
// Mixtral, Granite-MoE, OLMoE, Qwen3-MoE, Qwen2-MoE.
std::vector<HuggingFaceFamily> HuggingFaceExperts();

}  // namespace trireme
