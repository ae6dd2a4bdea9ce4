// Small models of every family that use what sets the family apart: windows and caps that bite, parts of heads.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "model/model_config.h"

namespace trireme {

// Names of all families but some.
inline std::vector<std::string> FamilyNames(const std::vector<std::string>& but = {}) {
  std::vector<std::string> names;
  for (const ModelFamily& family : ModelFamilies()) {
    if (std::find(but.begin(), but.end(), family.name) == but.end()) {
      names.push_back(family.name);
    }
  }
  return names;
}

// For heads of 4 elements and sequences of 6 tokens or more; to be completed afterwards.
inline void UseFeatures(ModelConfig& model) {
  if (model.family == "gpt_neox" || model.family == "nemotron" || model.family == "phi3") {
    model.rotary_fraction = 0.5;
  }
  if (model.family == "mistral" || model.family == "phi3") {
    model.window = 4;
  }
  if (model.family == "mistral") {
    model.rope_scaling = RopeScaling::kYarn;
    model.rope_factor = 4;
    model.rope_original = 4;
  }
  if (model.family == "phi3") {
    model.rope_scaling = RopeScaling::kLongRope;
    model.rope_factor = 4;
    model.rope_original = 4;
    model.rope_short_factors = "1.5";  // one pair of each head is turned
    model.rope_long_factors = "2.5";
  }
  if (model.family == "olmo2") {
    // Queries and keys come from a stream that no norm has scaled. Of small weights their norms would be so steep that
    // rounding grows from step to step.
    model.initial_deviation = 0.2;
  }
  if (model.family == "olmo3") {
    model.initial_deviation = 0.2;  // as of OLMo 2
    model.window = 3;
    model.rope_scaling = RopeScaling::kYarn;
    model.rope_factor = 4;
    model.rope_original = 4;
  }
  if (model.family == "smollm3") {
    model.window = 4;
    model.layer_types = "sliding, full_nope, full, sliding_nope";
    model.attention_bias = BiasChoice::kYes;
    model.activation = ActivationChoice::kGelu;
  }
  if (model.family == "granite") {
    model.embedding_multiplier = 3;
    model.residual_multiplier = 0.4;
    model.attention_multiplier = 0.3;
    model.logits_scaling = 2;
  }
  if (model.family == "gemma2") {
    model.window = 3;
    model.attention_cap = 1.5;
    model.logit_cap = 2;
    model.query_scalar = 3;
    model.head_dim = 6;
  }
  if (model.family == "gemma3") {
    // Queries and keys are normed: as of OLMo 2.
    model.initial_deviation = 0.1;
    model.window = 3;
    model.window_period = 3;
    model.local_rope_theta = 100;
    model.rope_scaling = RopeScaling::kLinear;
    model.rope_factor = 2;
  }
}

}  // namespace trireme
