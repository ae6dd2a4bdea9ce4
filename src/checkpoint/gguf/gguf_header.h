// The head of a GGUF file: typed metadata, and the names, shapes, types and offsets of its tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf/gguf_values.h"

namespace trireme {

// Data of a tensor starts at a multiple of so many bytes.
inline constexpr std::int64_t kGgufAlignment = 32;

class GgufHeader {
 public:
  void Text(const std::string& key, std::string_view value);
  void Count(const std::string& key, std::int64_t value);  // a 32-bit unsigned number
  void Number(const std::string& key, double value);       // a 32-bit float
  void Flag(const std::string& key, bool value);
  void Texts(const std::string& key, const std::vector<std::string>& values);
  void Integers(const std::string& key, const std::vector<std::int32_t>& values);
  void Numbers(const std::string& key, const std::vector<float>& values);
  void Bytes(const std::string& key, std::string_view bytes);

  // `shape` as ours, outermost first. Data follows in the order of these calls.
  void Tensor(const std::string& name, const std::vector<std::int64_t>& shape, GgufType type);

  // The whole head, padded to where the data of the first tensor starts.
  std::string Format() const;

 private:
  void Key(const std::string& key, std::uint32_t type);

  std::string metadata_;
  std::uint64_t keys_ = 0;
  std::string tensors_;
  std::uint64_t tensor_count_ = 0;
  std::int64_t offset_ = 0;
};

}  // namespace trireme
