// How each tensor of a Hugging Face model lies in a parameter of ours: names, and three orders of elements. Ours are
// [out, in] with query, key and value (gate and up) one after another.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/parameter_table.h"

namespace trireme {

enum class TensorOrder : std::uint8_t {
  kRows,         // rows [first_row, first_row + rows) of the parameter, as they are
  kTransposed,   // GPT-2's Conv1D stores [in, out]
  kInterleaved,  // BLOOM's query_key_value: rows [head][query, key, value][head size]
};

// Experts of a layer as a tensor for each matrix of each of them, or as the two that transformers holds in memory.
// Files may have either form.
enum class ExpertTensors : std::uint8_t { kEach, kFused };

struct HuggingFaceTensor {
  std::string name;  // as save_pretrained writes it
  std::vector<std::int64_t> shape;
  int row = 0;  // of the ParameterTable
  std::int64_t first_row = 0;
  TensorOrder order = TensorOrder::kRows;

  std::int64_t count() const;
  // The last extent of a matrix or of several.
  std::int64_t columns() const { return shape.size() > 1 ? shape.back() : 1; }
};

// Every tensor of the model, in the order of its modules. A tied output is left out.
std::vector<HuggingFaceTensor> HuggingFaceTensors(const ParameterTable& table,
                                                  ExpertTensors experts = ExpertTensors::kEach);

// `parameter` is the whole of ours, `tensor` the whole of theirs.
void ToHuggingFace(const ModelConfig& model, const HuggingFaceTensor& about, std::span<const float> parameter,
                   std::span<float> tensor);
void FromHuggingFace(const ModelConfig& model, const HuggingFaceTensor& about, std::span<const float> tensor,
                     std::span<float> parameter);

}  // namespace trireme
