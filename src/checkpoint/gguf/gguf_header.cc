#include "checkpoint/gguf/gguf_header.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/shape.h"

namespace trireme {
namespace {

// Types of metadata, as the format numbers them.
constexpr std::uint32_t kUInt8 = 0;
constexpr std::uint32_t kUInt32 = 4;
constexpr std::uint32_t kInt32 = 5;
constexpr std::uint32_t kFloat32 = 6;
constexpr std::uint32_t kBool = 7;
constexpr std::uint32_t kString = 8;
constexpr std::uint32_t kArray = 9;

constexpr std::uint32_t kGgufVersion = 3;

template <typename T>
void Put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void PutText(std::string& out, std::string_view text) {
  Put(out, static_cast<std::uint64_t>(text.size()));
  out.append(text);
}

}  // namespace

void GgufHeader::Key(const std::string& key, std::uint32_t type) {
  PutText(metadata_, key);
  Put(metadata_, type);
  ++keys_;
}

void GgufHeader::Text(const std::string& key, std::string_view value) {
  Key(key, kString);
  PutText(metadata_, value);
}

void GgufHeader::Count(const std::string& key, std::int64_t value) {
  Require(value >= 0 && value <= std::numeric_limits<std::uint32_t>::max(), "'{}' = {} does not fit a GGUF file", key,
          value);
  Key(key, kUInt32);
  Put(metadata_, static_cast<std::uint32_t>(value));
}

void GgufHeader::Number(const std::string& key, double value) {
  Key(key, kFloat32);
  Put(metadata_, static_cast<float>(value));
}

void GgufHeader::Flag(const std::string& key, bool value) {
  Key(key, kBool);
  Put(metadata_, static_cast<std::uint8_t>(value));
}

void GgufHeader::Texts(const std::string& key, const std::vector<std::string>& values) {
  Key(key, kArray);
  Put(metadata_, kString);
  Put(metadata_, static_cast<std::uint64_t>(values.size()));
  for (const std::string& value : values) {
    PutText(metadata_, value);
  }
}

void GgufHeader::Integers(const std::string& key, const std::vector<std::int32_t>& values) {
  Key(key, kArray);
  Put(metadata_, kInt32);
  Put(metadata_, static_cast<std::uint64_t>(values.size()));
  std::for_each(values.begin(), values.end(), [&](std::int32_t value) { Put(metadata_, value); });
}

void GgufHeader::Bytes(const std::string& key, std::string_view bytes) {
  Key(key, kArray);
  Put(metadata_, kUInt8);
  Put(metadata_, static_cast<std::uint64_t>(bytes.size()));
  metadata_.append(bytes);
}

void GgufHeader::Numbers(const std::string& key, const std::vector<float>& values) {
  Key(key, kArray);
  Put(metadata_, kFloat32);
  Put(metadata_, static_cast<std::uint64_t>(values.size()));
  std::for_each(values.begin(), values.end(), [&](float value) { Put(metadata_, value); });
}

void GgufHeader::Tensor(const std::string& name, const std::vector<std::int64_t>& shape, GgufType type) {
  PutText(tensors_, name);
  Put(tensors_, static_cast<std::uint32_t>(shape.size()));
  std::int64_t count = 1;
  // The format counts dims from the innermost.
  for (auto extent = shape.rbegin(); extent != shape.rend(); ++extent) {
    Put(tensors_, static_cast<std::uint64_t>(*extent));
    count *= *extent;
  }
  Put(tensors_, static_cast<std::uint32_t>(type));
  Put(tensors_, static_cast<std::uint64_t>(offset_));
  offset_ += RoundUp(GgufBytes(type, count), kGgufAlignment);
  ++tensor_count_;
}

std::string GgufHeader::Format() const {
  std::string head = "GGUF";
  Put(head, kGgufVersion);
  Put(head, tensor_count_);
  Put(head, keys_);
  head += metadata_;
  head += tensors_;
  head.resize(static_cast<std::size_t>(RoundUp(static_cast<std::int64_t>(head.size()), kGgufAlignment)), '\0');
  return head;
}

}  // namespace trireme
