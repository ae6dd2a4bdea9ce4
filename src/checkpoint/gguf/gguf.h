// GGUF, the file that llama.cpp runs: weights, shape, tokenizer and chat template in one. Keys and names of tensors are
// those that llama.cpp reads for its architectures.
#pragma once

#include <string>

#include "checkpoint/tools/reports.h"

namespace trireme {

struct GgufOptions {
  std::string type = "f16";  // f32 | f16 | bf16 | q8_0: of matrices; norms, biases and positions are always f32
  std::string tokenizer;     // as LoadTokenizer takes it; empty: the one found with the model
  bool merge = false;        // adds LoRA adapters to the matrices; without it a checkpoint that has some is an Error
};

// Writes the model at `path` (a checkpoint, a run's folder or a Hugging Face directory) as the new file `file`. An
// Error says what llama.cpp would compute otherwise: a family that it does not have, norms, caps or positions that its
// architecture lacks.
Report ExportGguf(const std::string& path, const std::string& file, const GgufOptions& options = {});

}  // namespace trireme
