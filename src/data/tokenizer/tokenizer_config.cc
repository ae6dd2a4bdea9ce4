#include "data/tokenizer/tokenizer_config.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/files/json_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::int64_t kMostConfigBytes = std::int64_t{1} << 28;
constexpr std::int64_t kMostTemplate = 1 << 20;

// A token is named by a string, or by an object with its content.
void TakeToken(const Json& root, const char* key, std::string& content) {
  const auto found = root.find(key);
  if (found == root.end() || found->is_null() || !content.empty()) {
    return;
  }
  content = found->is_object() ? found->at("content").get<std::string>() : found->get<std::string>();
}

std::optional<bool> FlagOf(const Json& root, const char* key) {
  const auto found = root.find(key);
  return found == root.end() || found->is_null() ? std::nullopt : std::optional<bool>(found->get<bool>());
}

std::string TemplateOf(const Json& root) {
  const auto found = root.find("chat_template");
  if (found == root.end() || found->is_null()) {
    return "";
  }
  if (found->is_string()) {
    return found->get<std::string>();
  }
  for (const Json& named : *found) {
    if (named.at("name") == "default") {
      return named.at("template").get<std::string>();
    }
  }
  return "";
}

void TakeNames(const Json& root, TokenizerConfig& config) {
  TakeToken(root, "bos_token", config.beginning);
  TakeToken(root, "eos_token", config.end);
  TakeToken(root, "unk_token", config.unknown);
  TakeToken(root, "pad_token", config.padding);
}

void TakeConfig(const Json& root, TokenizerConfig& config) {
  TakeNames(root, config);
  config.add_beginning = FlagOf(root, "add_bos_token");
  config.add_end = FlagOf(root, "add_eos_token");
  config.chat_template = TemplateOf(root);
  if (const auto added = root.find("added_tokens_decoder"); added != root.end()) {
    for (const auto& [id, token] : added->items()) {
      config.added[static_cast<std::int32_t>(std::stol(id))] = {.content = token.at("content").get<std::string>(),
                                                                .special = token.value("special", false)};
    }
  }
}

}  // namespace

TokenizerConfig ReadTokenizerConfig(const std::string& path) {
  TokenizerConfig config;
  if (path == "bytes") {
    return config;
  }
  const fs::path folder = fs::is_directory(path) ? fs::path(path) : fs::path(path).parent_path();
  const fs::path main = folder / "tokenizer_config.json";
  const fs::path names = folder / "special_tokens_map.json";
  const fs::path chat = folder / "chat_template.jinja";
  try {
    if (fs::exists(main)) {
      TakeConfig(ReadHostileJson(main.string(), kMostConfigBytes), config);
    }
    if (fs::exists(names)) {
      TakeNames(ReadHostileJson(names.string(), kMostConfigBytes), config);
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    Fail("the special tokens of '{}' cannot be read: {}", folder.string(), error.what());
  }
  if (fs::exists(chat)) {
    config.chat_template = ReadBoundedFile(chat.string(), kMostTemplate);
  }
  Require(static_cast<std::int64_t>(config.chat_template.size()) <= kMostTemplate,
          "the chat template of '{}' has {} bytes; {} are the most", folder.string(), config.chat_template.size(),
          kMostTemplate);
  return config;
}

}  // namespace trireme
