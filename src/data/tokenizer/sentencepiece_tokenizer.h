// SentencePiece models (Llama 2, T5 and their like) through Google's library. A build without that library has a twin
// of this function that says so.
#pragma once

#include <memory>
#include <string>

#include "data/tokenizer/tokenizer.h"

namespace trireme {

std::unique_ptr<Tokenizer> LoadSentencePiece(const std::string& path, const TokenizerOptions& options);

}  // namespace trireme
