// How llama.cpp names a model of ours: its architecture, the keys of its shape, and its tensors.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/gguf/gguf_header.h"
#include "model/parameter_table.h"

namespace trireme {

// What distinguishes llama.cpp's architectures. It computes no other combination.
struct GgufArchitecture {
  const char* family;              // ours
  const char* name;                // theirs
  bool fused_projections = false;  // query, key and value in one tensor, as ours
  bool fused_gate = false;         // gate and up in one tensor
  bool paired_rotary = false;      // rotary pairs are neighbours: rows of queries and keys are reordered
  bool own_output = false;         // an output tensor is needed even where it is tied
  bool free_heads = false;         // heads times their size may differ from the hidden size
  bool windows = false;            // layers with windows
  bool part_of_head = false;       // rotary positions may turn a part of each head
  bool longrope = false;           // reads its factors
  bool capped = false;             // Gemma 2: scores and logits are capped always, and every layer has one rotary base
  bool named_phi = false;          // special tokens take the spaces after them where the name says so
  std::int64_t largest = 0;        // of Gemma: layers by which llama.cpp knows the release of 27B
  // Keys that this architecture has besides those of the shape; nullptr: none.
  void (*add)(const ModelConfig& model, const std::string& at, GgufHeader& header) = nullptr;
};
// One for each family that llama.cpp runs.
std::span<const GgufArchitecture> GgufArchitectures();
// An Error names the families that llama.cpp runs, or says which choice of the model its architecture lacks.
const GgufArchitecture& GgufArchitectureOf(const ModelConfig& model);

// A tensor of the file. Its values are rows [first_row, first_row + shape[0]) of a parameter, all plus `add`.
struct GgufTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  int row = 0;  // of the ParameterTable
  std::int64_t first_row = 0;
  std::int64_t stride = 0;  // above 0: shape[1] rows of each expert, whose matrices are so many rows apart
  std::int64_t heads = 0;   // above 0: within each head, row i and row i + size / 2 become neighbours
  float add = 0;            // norms of llama.cpp multiply by the gain alone

  // F32 for what is no matrix and for positions, `type` for the rest; F16 where rows are no whole blocks of Q8_0.
  GgufType TypeIn(GgufType type) const;
};
std::vector<GgufTensor> GgufTensors(const ParameterTable& table, const GgufArchitecture& architecture);
// `parameter` is the whole of ours.
std::vector<float> GgufValues(const GgufTensor& tensor, std::span<const float> parameter);

// Positions that the file allows: where llama.cpp lacks the model's window, those for which it makes no difference.
std::int64_t GgufContext(const ModelConfig& model, const GgufArchitecture& architecture);
void AddGgufShape(const ModelConfig& model, const GgufArchitecture& architecture, GgufHeader& header);
// Divisors of the rotary frequencies, for Llama 3's scaling and longrope; none for the others.
struct GgufDivisors {
  std::string name;
  std::vector<float> values;
};
std::vector<GgufDivisors> GgufRotaryDivisors(const ModelConfig& model);

}  // namespace trireme
