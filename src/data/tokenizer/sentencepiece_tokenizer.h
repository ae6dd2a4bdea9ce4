// SentencePiece models (Llama 2, T5 and their like) through Google's library. A build without that library has twins
// of these functions that say so.
#pragma once

#include <memory>
#include <string>

#include "data/tokenizer/token_table.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme {

std::unique_ptr<Tokenizer> LoadSentencePiece(const std::string& path, const TokenizerOptions& options);
// Its pieces with their scores, merged by them or unigrams. Models of words or characters are an Error.
TokenTable ReadSentencePieceTable(const std::string& path);

}  // namespace trireme
