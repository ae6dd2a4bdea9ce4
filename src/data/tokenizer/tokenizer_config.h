// What tokenizer_config.json and the files beside it say of a tokenizer: names of special tokens, and the chat
// template.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace trireme {

// A larger JSON file of a tokenizer is refused.
inline constexpr std::int64_t kMostTokenizerBytes = std::int64_t{1} << 28;

struct TokenizerConfig {
  // Contents of tokens; empty where the files name none.
  std::string beginning;
  std::string end;
  std::string unknown;
  std::string padding;
  std::optional<bool> add_beginning;  // add_bos_token
  std::optional<bool> add_end;        // add_eos_token
  struct Added {
    std::string content;
    bool special = false;
  };
  std::map<std::int32_t, Added> added;  // added_tokens_decoder, by id
  std::string chat_template;            // Jinja; empty: none
};

// The files of the tokenizer at `path`, as LoadTokenizer takes it. Nothing is set where the files are not there. The
// template is chat_template.jinja's, or tokenizer_config.json's (of several the one called "default").
TokenizerConfig ReadTokenizerConfig(const std::string& path);

}  // namespace trireme
