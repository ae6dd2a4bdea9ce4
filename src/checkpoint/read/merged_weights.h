// Weights with their LoRA adapters added to the matrices: W + (alpha / rank) B A, the model that a program without
// adapters computes alike.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/read/weight_source.h"

namespace trireme {

// The weights at `path`, as OpenWeights. Those with adapters come out merged where `merge` says so, their model without
// adapters, and are an Error otherwise, which names `path` and what to do.
std::unique_ptr<WeightSource> OpenWithoutAdapters(const std::string& path, bool merge);

// The parameter "block.0.mlp.in.lora_a" of "block.0.mlp.in.weight", and likewise lora_b; -1 where it has no adapter.
struct AdapterRows {
  int a = -1;
  int b = -1;
};
AdapterRows AdapterOf(const ParameterTable& table, const Parameter& weight);

}  // namespace trireme
