#include "data/dataset/indexed_dataset.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::int64_t kHeaderBytes = 34;
constexpr std::int64_t kEntriesRead = 1 << 16;  // entries a read of the streamed checks

// The arrays follow a header of 34 bytes, so they are unaligned in the file: entries are copied out, never cast.
template <typename Value>
Value ReadValue(const InputFile& file, std::int64_t offset) {
  std::array<std::byte, sizeof(Value)> bytes;
  file.Read(offset, bytes);
  Value value;
  std::memcpy(&value, bytes.data(), sizeof(Value));
  return value;
}

template <typename Value>
void ReadValues(const InputFile& file, std::int64_t offset, std::span<Value> values) {
  file.Read(offset, std::as_writable_bytes(values));
}

TokenKind ParseKind(const std::string& path, std::uint8_t code) {
  Require(code != 6 && code != 7, "'{}' holds floating-point values (code {}), not tokens", path, code);
  Require((code >= 1 && code <= 5) || code == 8, "'{}' has unknown token kind {}: known are 1 to 5 and 8", path, code);
  return static_cast<TokenKind>(code);
}

}  // namespace

std::string DatasetPrefix(const std::string& path) {
  return path.ends_with(".bin") || path.ends_with(".idx") ? path.substr(0, path.size() - 4) : path;
}

std::unique_ptr<TokenStore> OpenIndexedDataset(const std::string& path) {
  const std::string prefix = DatasetPrefix(path);
  std::error_code status;
  Require(std::filesystem::exists(prefix + ".idx", status) || std::filesystem::exists(prefix + ".bin", status),
          "dataset '{}' does not exist: `scripts/quickstart` makes that of recipes/novels.toml and, with `--corpus "
          "documentation`, that of recipes/quickstart.toml; `trireme data prepare TEXT --tokenizer FILE --output {}` "
          "makes one of other text (docs/data.md)",
          prefix, prefix);
  return std::make_unique<IndexedDataset>(path);
}

IndexedDataset::IndexedDataset(const std::string& path)
    : idx_(DatasetPrefix(path) + ".idx"), bin_(DatasetPrefix(path) + ".bin") {
  ReadHeader();
  CheckSequences();
  CheckDocuments();
}

void IndexedDataset::ReadHeader() {
  const std::string& path = idx_.path();
  Require(idx_.size() >= kHeaderBytes, "'{}' has {} bytes, fewer than the {} of an index header", path, idx_.size(),
          kHeaderBytes);
  std::array<char, 9> magic;
  idx_.Read(0, std::as_writable_bytes(std::span(magic)));
  Require(magic == kIndexMagic, "'{}' does not start with MMIDIDX: it is not the index of a dataset", path);
  const auto version = ReadValue<std::uint64_t>(idx_, 9);
  Require(version == 1, "'{}' has index version {}, only 1 is known", path, version);
  kind_ = ParseKind(path, ReadValue<std::uint8_t>(idx_, 17));
  token_size_ = SizeOf(kind_);
  const auto sequences = ReadValue<std::uint64_t>(idx_, 18);
  const auto boundaries = ReadValue<std::uint64_t>(idx_, 26);
  const auto room = static_cast<std::uint64_t>(idx_.size() - kHeaderBytes);
  Require(sequences <= room / 12, "'{}' claims {} sequences, its {} bytes hold at most {}", path, sequences,
          idx_.size(), room / 12);
  Require(boundaries <= room / 8, "'{}' claims {} document boundaries, its {} bytes hold at most {}", path, boundaries,
          idx_.size(), room / 8);
  Require(boundaries > 0, "'{}' has no document boundaries; even an empty dataset has one", path);
  const std::uint64_t plain = sequences * 12 + boundaries * 8;
  Require(room == plain || room == plain + sequences,
          "'{}' has {} bytes; {} sequences and {} document boundaries take {} (or {} with modes)", path, idx_.size(),
          sequences, boundaries, plain + kHeaderBytes, plain + sequences + kHeaderBytes);
  sequences_ = static_cast<std::int64_t>(sequences);
  boundaries_ = static_cast<std::int64_t>(boundaries);
  has_modes_ = room != plain;
  Require(bin_.size() % token_size_ == 0, "'{}' has {} bytes, not a whole number of {} tokens", bin_.path(),
          bin_.size(), Name(kind_));
  tokens_ = bin_.size() / token_size_;
}

void IndexedDataset::CheckSequences() const {
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(std::min(kEntriesRead, sequences_)));
  std::vector<std::int64_t> offsets(lengths.size());
  std::int64_t expected = 0;
  for (std::int64_t first = 0; first < sequences_; first += kEntriesRead) {
    const auto count = static_cast<std::size_t>(std::min(kEntriesRead, sequences_ - first));
    ReadValues(idx_, kHeaderBytes + first * 4, std::span(lengths).first(count));
    ReadValues(idx_, offsets_at() + first * 8, std::span(offsets).first(count));
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t sequence = first + static_cast<std::int64_t>(i);
      Require(lengths[i] >= 0, "sequence {} of '{}' has length {}", sequence, idx_.path(), lengths[i]);
      Require(offsets[i] == expected, "sequence {} of '{}' starts at byte {}, the lengths before it give {}", sequence,
              idx_.path(), offsets[i], expected);
      expected += lengths[i] * token_size_;
    }
  }
  Require(expected == bin_.size(), "'{}' has {} bytes, the {} sequences of '{}' take {}", bin_.path(), bin_.size(),
          sequences_, idx_.path(), expected);
}

void IndexedDataset::CheckDocuments() const {
  std::vector<std::int64_t> boundaries(static_cast<std::size_t>(std::min(kEntriesRead, boundaries_)));
  std::int64_t previous = 0;
  for (std::int64_t first = 0; first < boundaries_; first += kEntriesRead) {
    const auto count = static_cast<std::size_t>(std::min(kEntriesRead, boundaries_ - first));
    ReadValues(idx_, boundaries_at() + first * 8, std::span(boundaries).first(count));
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t entry = first + static_cast<std::int64_t>(i);
      Require(entry > 0 || boundaries[i] == 0, "the first document of '{}' starts at sequence {}, not 0", idx_.path(),
              boundaries[i]);
      Require(boundaries[i] >= previous, "document boundary {} of '{}' is {}, below {} before it", entry, idx_.path(),
              boundaries[i], previous);
      Require(boundaries[i] <= sequences_, "document boundary {} of '{}' is {}, beyond its {} sequences", entry,
              idx_.path(), boundaries[i], sequences_);
      previous = boundaries[i];
    }
  }
  Require(previous == sequences_, "the last document boundary of '{}' is {}, not its {} sequences", idx_.path(),
          previous, sequences_);
}

std::int64_t IndexedDataset::offsets_at() const { return kHeaderBytes + sequences_ * 4; }
std::int64_t IndexedDataset::boundaries_at() const { return kHeaderBytes + sequences_ * 12; }

void IndexedDataset::Read(std::int64_t first, std::span<std::int32_t> out) const {
  assert(first >= 0 && first + static_cast<std::int64_t>(out.size()) <= tokens_);
  std::array<std::byte, 16384> buffer;
  const auto size = static_cast<std::size_t>(token_size_);
  for (std::size_t done = 0; done < out.size();) {
    const std::size_t count = std::min(buffer.size() / size, out.size() - done);
    const auto stored = std::span(buffer).first(count * size);
    bin_.Read((first + static_cast<std::int64_t>(done)) * token_size_, stored);
    DecodeTokens(kind_, stored, out.subspan(done, count));
    done += count;
  }
}

std::int32_t IndexedDataset::SequenceLength(std::int64_t index) const {
  assert(index >= 0 && index < sequences_);
  return ReadValue<std::int32_t>(idx_, kHeaderBytes + index * 4);
}

// The index may be rewritten under us after it was checked; values that come from it are clamped where they steer
// further reads.
std::int64_t IndexedDataset::SequenceStart(std::int64_t index) const {
  assert(index >= 0 && index <= sequences_);
  if (index == sequences_) {
    return tokens_;
  }
  return std::clamp<std::int64_t>(ReadValue<std::int64_t>(idx_, offsets_at() + index * 8) / token_size_, 0, tokens_);
}

std::int64_t IndexedDataset::DocumentSequence(std::int64_t index) const {
  assert(index >= 0 && index < boundaries_);
  return std::clamp<std::int64_t>(ReadValue<std::int64_t>(idx_, boundaries_at() + index * 8), 0, sequences_);
}

std::int64_t IndexedDataset::FindDocument(std::int64_t position) const {
  std::int64_t low = 0;  // starts at or before `position`
  std::int64_t high = boundaries_ - 1;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (SequenceStart(DocumentSequence(middle)) <= position ? low : high) = middle;
  }
  return low;
}

std::int64_t IndexedDataset::DocumentStart(std::int64_t position) const {
  return SequenceStart(DocumentSequence(FindDocument(position)));
}

std::vector<std::int64_t> IndexedDataset::DocumentStartsBetween(std::int64_t first, std::int64_t last) const {
  std::vector<std::int64_t> starts;
  for (std::int64_t document = FindDocument(first) + 1; document < boundaries_ - 1; ++document) {
    const std::int64_t start = SequenceStart(DocumentSequence(document));
    if (start >= last) {
      break;
    }
    // Empty documents share their start with the next one.
    if (start > first && (starts.empty() || start > starts.back())) {
      starts.push_back(start);
    }
  }
  return starts;
}

void IndexedDataset::AnswerMask(std::int64_t first, std::span<std::uint8_t> out) const {
  if (out.empty()) {
    return;
  }
  std::int64_t document = FindDocument(first);
  std::int64_t opening = DocumentSequence(document);
  std::int64_t next_opening = DocumentSequence(document + 1);
  std::int64_t sequence = opening;
  std::int64_t end = SequenceStart(sequence + 1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    while (first + static_cast<std::int64_t>(i) >= end) {
      end = SequenceStart(++sequence + 1);
      while (sequence >= next_opening) {
        opening = next_opening;
        next_opening = DocumentSequence(++document + 1);
      }
    }
    out[i] = static_cast<std::uint8_t>((sequence - opening) % 2);
  }
}

}  // namespace trireme
