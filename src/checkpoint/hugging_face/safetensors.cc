#include "checkpoint/hugging_face/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/shape.h"
#include "base/wide_count.h"
#include "checkpoint/format/bounded_json.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMostEntries = 1'000'000;
constexpr std::size_t kMostDims = 8;

std::uint64_t HeaderLength(std::string_view bytes) {
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  return length;
}

void RequireLength(std::uint64_t length, std::int64_t file_bytes, const std::string& origin) {
  Require(length <= static_cast<std::uint64_t>(kLargestSafetensorsHeader),
          "'{}': a header of {} bytes; the format allows {}", origin, length, kLargestSafetensorsHeader);
  Require(length + kLengthBytes <= static_cast<std::uint64_t>(file_bytes),
          "'{}': a header of {} bytes does not fit a file of {} bytes", origin, length, file_bytes);
}

// Bytes of a tensor by its shape; wraps nowhere.
std::int64_t CheckedBytes(const SafetensorsEntry& entry, std::int64_t file_bytes, const std::string& origin) {
  // A zero anywhere makes the tensor empty, whatever the other extents are.
  if (std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end()) {
    return 0;
  }
  auto bytes = static_cast<WideCount>(SafetensorsElementBytes(entry.dtype, origin));
  for (const std::int64_t extent : entry.shape) {
    bytes *= static_cast<WideCount>(extent);
    Require(bytes <= static_cast<WideCount>(file_bytes),
            "'{}': the shape of '{}' asks for more bytes than the file of {} has", origin, entry.name, file_bytes);
  }
  return static_cast<std::int64_t>(bytes);
}

SafetensorsEntry ParseEntry(const std::string& name, const json& value, std::int64_t file_bytes,
                            const std::string& origin) {
  RequirePlainName(name, origin);
  Require(value.is_object() && value.size() == 3, "'{}': '{}' must have dtype, shape and data_offsets, nothing else",
          origin, name);
  SafetensorsEntry entry{.name = name, .dtype = TextOf(value, "dtype", origin)};
  entry.shape = CountsOf(MemberOf(value, "shape", origin), "shape of " + name, origin);
  Require(entry.shape.size() <= kMostDims, "'{}': '{}' has {} dims, at most {} are read", origin, name,
          entry.shape.size(), kMostDims);
  const auto offsets = CountsOf(MemberOf(value, "data_offsets", origin), "data_offsets of " + name, origin);
  Require(offsets.size() == 2, "'{}': '{}' has {} data_offsets instead of 2", origin, name, offsets.size());
  entry.begin = offsets[0];
  entry.end = offsets[1];
  const std::int64_t bytes = CheckedBytes(entry, file_bytes, origin);
  Require(entry.begin <= entry.end && entry.end - entry.begin == bytes,
          "'{}': '{}' has data_offsets [{}, {}] but its shape and dtype make {} bytes", origin, name, entry.begin,
          entry.end, bytes);
  return entry;
}

std::map<std::string, std::string> ParseMetadata(const json& value, const std::string& origin) {
  Require(value.is_object(), "'{}': __metadata__ must be an object", origin);
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    Require(text.is_string(), "'{}': __metadata__ '{}' must be a string", origin, key);
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

std::string Quoted(const std::string& text) { return JsonText(json(text), {.bad_utf8 = BadUtf8::kRefuse}); }

}  // namespace

std::int64_t SafetensorsEntry::count() const {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    return 0;
  }
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) {
    product *= extent;
  }
  return product;
}

const SafetensorsEntry* SafetensorsHeader::Find(std::string_view name) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const SafetensorsEntry& entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

std::int64_t SafetensorsElementBytes(const std::string& dtype, const std::string& origin) {
  static const std::map<std::string, std::int64_t> sizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
      {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"I64", 8},     {"U64", 8}, {"F64", 8},
  };
  const auto size = sizes.find(dtype);
  Require(size != sizes.end(), "'{}': the dtype '{}' is not one that can be read", origin, dtype.substr(0, 32));
  return size->second;
}

std::string ReadSafetensorsHeaderBytes(const InputFile& file) {
  std::string bytes(kLengthBytes, '\0');
  Require(file.size() >= static_cast<std::int64_t>(kLengthBytes), "'{}' has {} bytes: too short for safetensors",
          file.path(), file.size());
  file.Read(0, std::as_writable_bytes(std::span(bytes)));
  const std::uint64_t length = HeaderLength(bytes);
  RequireLength(length, file.size(), file.path());
  bytes.resize(kLengthBytes + length);
  file.Read(kLengthBytes, std::as_writable_bytes(std::span(bytes).subspan(kLengthBytes)));
  return bytes;
}

SafetensorsHeader ParseSafetensorsHeader(std::string_view bytes, std::int64_t file_bytes, const std::string& origin) {
  Require(bytes.size() > kLengthBytes, "'{}': no header", origin);
  const std::uint64_t length = HeaderLength(bytes);
  RequireLength(length, file_bytes, origin);
  Require(bytes.size() == kLengthBytes + length && bytes[kLengthBytes] == '{', "'{}': the header must start with '{{'",
          origin);
  // Depth: the header, a tensor, its shape.
  const json root =
      ParseBoundedJson(bytes.substr(kLengthBytes), origin, {.depth = 4, .values = 5'000'000, .unique_keys = true});
  SafetensorsHeader header;
  header.data_start = static_cast<std::int64_t>(bytes.size());
  Require(root.size() <= kMostEntries, "'{}': {} tensors; at most {} are read", origin, root.size(), kMostEntries);
  for (const auto& [name, value] : root.items()) {
    if (name == "__metadata__") {
      header.metadata = ParseMetadata(value, origin);
    } else {
      header.entries.push_back(ParseEntry(name, value, file_bytes, origin));
    }
  }
  std::sort(header.entries.begin(), header.entries.end(),
            [](const auto& a, const auto& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::int64_t end = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    Require(entry.begin == end, "'{}': '{}' starts at byte {} of the data where {} was expected: a hole or an overlap",
            origin, entry.name, entry.begin, end);
    end = entry.end;
  }
  Require(header.data_start + end == file_bytes, "'{}': the header speaks of {} bytes, the file has {}", origin,
          header.data_start + end, file_bytes);
  return header;
}

SafetensorsHeader ReadSafetensorsHeader(const InputFile& file) {
  return ParseSafetensorsHeader(ReadSafetensorsHeaderBytes(file), file.size(), file.path());
}

std::string FormatSafetensorsHeader(const std::map<std::string, std::string>& metadata,
                                    const std::vector<SafetensorsEntry>& entries) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      text += fmt::format("{}{}:{}", text.back() == '{' ? "" : ",", Quoted(key), Quoted(value));
    }
    text += "}";
  }
  for (const SafetensorsEntry& entry : entries) {
    std::string shape;
    for (const std::int64_t extent : entry.shape) {
      shape += fmt::format("{}{}", shape.empty() ? "" : ",", extent);
    }
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        text.size() == 1 ? "" : ",", Quoted(entry.name), entry.dtype, shape, entry.begin, entry.end);
  }
  text += "}";
  text.resize(static_cast<std::size_t>(RoundUp(static_cast<std::int64_t>(text.size()), kLengthBytes)), ' ');
  const auto length = static_cast<std::uint64_t>(text.size());
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  return bytes + text;
}

}  // namespace trireme
