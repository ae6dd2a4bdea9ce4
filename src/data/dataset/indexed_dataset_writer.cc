#include "data/dataset/indexed_dataset_writer.h"

#include <cassert>
#include <cstdio>
#include <filesystem>
#include <limits>

#include "base/durable_file.h"
#include "base/error.h"
#include "data/dataset/indexed_dataset.h"
#include "data/files/input_file.h"

namespace trireme {
namespace {

constexpr std::int64_t kChunkBytes = 1 << 20;
constexpr const char* kBinPartial = ".bin.partial";
constexpr const char* kLengthsPartial = ".lengths.partial";
constexpr const char* kDocumentsPartial = ".documents.partial";

void CopyInto(const std::string& from, OutputFile& to) {
  const InputFile file(from);
  std::vector<std::byte> buffer(kChunkBytes);
  for (std::int64_t at = 0; at < file.size(); at += kChunkBytes) {
    const auto chunk = std::span(buffer).first(static_cast<std::size_t>(std::min(kChunkBytes, file.size() - at)));
    file.Read(at, chunk);
    to.Append(chunk);
  }
}

// Byte offsets of the sequences: prefix sums of their lengths.
void AppendOffsets(const std::string& lengths_path, std::int64_t token_size, OutputFile& idx) {
  const InputFile file(lengths_path);
  std::vector<std::int32_t> lengths(kChunkBytes / 4);
  std::int64_t offset = 0;
  for (std::int64_t at = 0; at < file.size(); at += kChunkBytes) {
    const auto chunk = std::span(lengths).first(static_cast<std::size_t>(std::min(kChunkBytes, file.size() - at) / 4));
    file.Read(at, std::as_writable_bytes(chunk));
    for (const std::int32_t length : chunk) {
      idx.AppendValue(offset);
      offset += length * token_size;
    }
  }
}

// The name of an unfinished file, free unless `keep` bytes of an earlier attempt are gone on with. What lies there is
// removed and not written through, so that a link of that name costs its target nothing.
std::string UnfinishedName(const std::string& path, std::int64_t keep) {
  std::error_code ignored;
  const bool link = std::filesystem::is_symlink(std::filesystem::symlink_status(path, ignored));
  Require(keep == 0 || !link, "'{}' is a symbolic link, not the file that was begun: remove it to start anew", path);
  if (keep == 0) {
    std::remove(path.c_str());
  }
  return path;
}

}  // namespace

IndexedDatasetWriter::IndexedDatasetWriter(const std::string& prefix, TokenKind kind, const DatasetExtent& state)
    : prefix_(prefix),
      kind_(kind),
      state_(state),
      bin_(UnfinishedName(prefix + kBinPartial, state.tokens * SizeOf(kind)), state.tokens * SizeOf(kind)),
      lengths_(UnfinishedName(prefix + kLengthsPartial, state.sequences * 4), state.sequences * 4),
      boundaries_(UnfinishedName(prefix + kDocumentsPartial, state.documents * 8), state.documents * 8) {}

void IndexedDatasetWriter::RemovePartialFiles(const std::string& prefix) {
  for (const char* suffix : {kBinPartial, kLengthsPartial, kDocumentsPartial}) {
    std::remove((prefix + suffix).c_str());
  }
}

void IndexedDatasetWriter::AddSequence(std::span<const std::int32_t> tokens) {
  Require(tokens.size() <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()),
          "a sequence of {} tokens is longer than the index of '{}' can say", tokens.size(), prefix_);
  scratch_.resize(tokens.size() * static_cast<std::size_t>(SizeOf(kind_)));
  EncodeTokens(kind_, tokens, scratch_);
  bin_.Append(scratch_);
  lengths_.AppendValue(static_cast<std::int32_t>(tokens.size()));
  state_.tokens += static_cast<std::int64_t>(tokens.size());
  ++state_.sequences;
}

void IndexedDatasetWriter::EndDocument() {
  boundaries_.AppendValue(state_.sequences);
  ++state_.documents;
}

DatasetExtent IndexedDatasetWriter::Checkpoint() {
  bin_.Sync();
  lengths_.Sync();
  boundaries_.Sync();
  return state_;
}

void IndexedDatasetWriter::Finish() {
  bin_.Close();
  lengths_.Close();
  boundaries_.Close();
  OutputFile idx(UnfinishedName(prefix_ + ".idx.partial", 0));
  idx.Append(std::as_bytes(std::span(kIndexMagic)));
  idx.AppendValue(std::uint64_t{1});
  idx.AppendValue(static_cast<std::uint8_t>(kind_));
  idx.AppendValue(state_.sequences);
  idx.AppendValue(state_.documents + 1);
  CopyInto(lengths_.path(), idx);
  AppendOffsets(lengths_.path(), SizeOf(kind_), idx);
  idx.AppendValue(std::int64_t{0});
  CopyInto(boundaries_.path(), idx);
  idx.Close();
  MoveIntoPlace(bin_.path(), prefix_ + ".bin");
  MoveIntoPlace(idx.path(), prefix_ + ".idx");
  std::remove(lengths_.path().c_str());
  std::remove(boundaries_.path().c_str());
}

}  // namespace trireme
