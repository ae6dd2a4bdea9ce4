#include "data/files/json_file.h"

#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/json_text.h"
#include "data/files/input_file.h"

namespace trireme {
std::string ReadBoundedFile(const std::string& path, std::int64_t most_bytes) {
  const InputFile file(path);
  Require(file.size() <= most_bytes, "'{}' has {} bytes, more than the {} it may have", path, file.size(), most_bytes);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.Read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

nlohmann::json ParseHostileJson(std::string_view text, const std::string& origin) {
  try {
    return ParseJson(text);
  } catch (const Error& error) {
    Fail("'{}' is not JSON: {}", origin, error.what());
  }
}

nlohmann::json ReadHostileJson(const std::string& path, std::int64_t most_bytes) {
  return ParseHostileJson(ReadBoundedFile(path, most_bytes), path);
}

}  // namespace trireme
