#include "data/files/json_file.h"

#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/json_text.h"
#include "data/files/input_file.h"

namespace trireme {
namespace {

constexpr int kDeepest = 64;

// Depth of nesting without a parse: a document of a million brackets is refused before anything is built from it.
int DeepestNesting(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool inside_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (inside_string) {
      i += c == '\\' ? 1 : 0;
      inside_string = c != '"';
    } else if (c == '"') {
      inside_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

std::string ReadBoundedFile(const std::string& path, std::int64_t most_bytes) {
  const InputFile file(path);
  Require(file.size() <= most_bytes, "'{}' has {} bytes, more than the {} it may have", path, file.size(), most_bytes);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.Read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

nlohmann::json ParseHostileJson(std::string_view text, const std::string& origin) {
  const int depth = DeepestNesting(text);
  Require(depth <= kDeepest, "'{}' is nested {} deep, more than {}", origin, depth, kDeepest);
  try {
    return ParseJson(text);
  } catch (const nlohmann::json::exception& error) {
    Fail("'{}' is not JSON: {}", origin, error.what());
  }
}

nlohmann::json ReadHostileJson(const std::string& path, std::int64_t most_bytes) {
  return ParseHostileJson(ReadBoundedFile(path, most_bytes), path);
}

}  // namespace trireme
