// The safetensors container: u64 little-endian length of a JSON header, the header, then the tensors without gaps.
// Headers are read under the checks of the reference implementation, and stricter where it leaves them to its JSON
// library (a name twice, depth, control characters).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/files/input_file.h"

namespace trireme {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // "F32", "BF16", "F16", "I64", …: as the format spells it
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  // bytes, from the start of the data
  std::int64_t end = 0;

  std::int64_t count() const;  // elements
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsEntry> entries;  // in the order of their data
  std::int64_t data_start = 0;            // in the file: 8 + length of the header

  // nullptr when there is none.
  const SafetensorsEntry* Find(std::string_view name) const;
};

inline constexpr std::int64_t kLargestSafetensorsHeader = 100'000'000;

// Bytes of an element; an Error (naming `origin`) for an unknown or sub-byte dtype.
std::int64_t SafetensorsElementBytes(const std::string& dtype, const std::string& origin);

// The length field and the header of an open file, as bytes: what a digest of the header covers.
std::string ReadSafetensorsHeaderBytes(const InputFile& file);
// Parses those bytes. `file_bytes` is the size of the whole file: the data must fill it exactly.
SafetensorsHeader ParseSafetensorsHeader(std::string_view bytes, std::int64_t file_bytes, const std::string& origin);
SafetensorsHeader ReadSafetensorsHeader(const InputFile& file);

// Length field and header for entries given in the order of their data; padded with spaces so that data starts at a
// multiple of 8, byte for byte as the reference implementation writes it.
std::string FormatSafetensorsHeader(const std::map<std::string, std::string>& metadata,
                                    const std::vector<SafetensorsEntry>& entries);

}  // namespace trireme
