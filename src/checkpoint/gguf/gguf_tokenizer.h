// A tokenizer in the metadata of a GGUF file.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/gguf/gguf_header.h"
#include "data/tokenizer/token_table.h"

namespace trireme {

// Adds a table that has as many tokens as the model or fewer (the rest are unused ones); more is an Error, and so is a
// way to cut text that llama.cpp does not have. Returns what a reader should know of it: "" or a remark.
std::string AddGgufTokenizer(TokenTable table, std::int64_t vocabulary, GgufHeader& header);
// Says that the file has no tokenizer: only token ids can be given to the model.
void AddNoGgufTokenizer(GgufHeader& header);

}  // namespace trireme
