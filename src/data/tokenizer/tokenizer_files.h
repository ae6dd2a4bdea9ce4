// Reading and writing the files that describe a byte-level BPE: Hugging Face's tokenizer.json, and GPT-2's vocab.json
// with merges.txt. Files are hostile: anything odd is an Error that names the file and what is wrong.
#pragma once

#include <string>

#include "data/tokenizer/bpe_tokenizer.h"

namespace trireme {

// Also reads the names of special tokens from tokenizer_config.json in the same directory, if there is one.
BpeDescription ReadTokenizerJson(const std::string& path);
// `vocabulary_path` is a vocab.json; merges.txt lies beside it.
BpeDescription ReadVocabularyAndMerges(const std::string& vocabulary_path);
// A tokenizer.json that Hugging Face's libraries read.
std::string WriteTokenizerJson(const BpeDescription& description);

}  // namespace trireme
