#include "data/tokenizer/tokenizer_folder.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>

#include "base/durable_file.h"
#include "base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::array kMainFiles = {"tokenizer.json", "vocab.json", "tokenizer.model"};
constexpr std::array kCompanions = {"merges.txt", "tokenizer_config.json", "special_tokens_map.json",
                                    "added_tokens.json", "chat_template.jinja"};

// What a tokenizer's file is called in a folder of its own.
std::string UsualName(const fs::path& file) {
  if (file.extension() == ".model") {
    return "tokenizer.model";
  }
  return file.filename() == "vocab.json" ? "vocab.json" : "tokenizer.json";
}

// Nothing when it is not there.
std::optional<std::string> Content(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    return std::nullopt;
  }
  return std::string{std::istreambuf_iterator<char>(stream), {}};
}

void Copy(const fs::path& from, const fs::path& to, Links links) {
  std::error_code ignored;
  Require(links == Links::kFollowed || fs::is_regular_file(fs::symlink_status(from, ignored)),
          "'{}' is a symbolic link or no regular file, and is not copied: put the tokenizer's own file there",
          from.string());
  const std::optional<std::string> content = Content(from);
  Require(content.has_value(), "'{}' cannot be copied to '{}': it cannot be read", from.string(), to.string());
  ReplaceFile(to.string(), *content);
}

}  // namespace

std::string FindTokenizer(const std::string& folder) {
  for (const char* name : kMainFiles) {
    std::error_code ignored;
    if (const fs::path file = fs::path(folder) / name; fs::exists(file, ignored)) {
      return file.string();
    }
  }
  return "";
}

void CopyTokenizer(const std::string& path, const std::string& folder, Links links) {
  const std::string main = fs::is_directory(path) ? FindTokenizer(path) : path;
  if (path == "bytes" || main.empty()) {
    return;
  }
  const fs::path source = fs::path(main).parent_path();
  std::error_code error;
  if (fs::equivalent(source.empty() ? "." : source, folder, error)) {
    return;
  }
  fs::create_directories(folder, error);
  Require(!error, "the folder '{}' cannot be made: {}", folder, error.message());
  Copy(main, fs::path(folder) / UsualName(main), links);
  // A file under a name of its own belongs to no set: what lies beside it may be another tokenizer's.
  const bool is_set = fs::is_directory(path) || fs::path(main).filename() == UsualName(main);
  for (const auto& names : {std::span<const char* const>(kMainFiles), std::span<const char* const>(kCompanions)}) {
    for (const char* name : names) {
      if (is_set && fs::exists(source / name) && !fs::equivalent(source / name, main)) {
        Copy(source / name, fs::path(folder) / name, links);
      }
    }
  }
}

bool SameTokenizer(const std::string& folder, const std::string& other) {
  for (const auto& names : {std::span<const char* const>(kMainFiles), std::span<const char* const>(kCompanions)}) {
    for (const char* name : names) {
      if (Content(fs::path(folder) / name) != Content(fs::path(other) / name)) {
        return false;
      }
    }
  }
  return true;
}

std::string TokenizerFolderOf(const std::string& prefix) { return prefix + ".tokenizer"; }

}  // namespace trireme
