#include "checkpoint/format/shard_writer.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"
#include "data/files/input_file.h"

namespace trireme {
namespace {

ShardHeader WithRoomForDigests(ShardHeader header) {
  for (ShardSlice& slice : header.slices) {
    slice.chunks.assign(static_cast<std::size_t>(CeilDiv(slice.bytes(), kChunkBytes)), Digest{});
  }
  return header;
}

}  // namespace

std::int64_t ShardFileBytes(ShardHeader header) {
  header = WithRoomForDigests(std::move(header));
  auto bytes = static_cast<std::int64_t>(FormatShardHeader(header).size());
  for (const ShardSlice& slice : header.slices) {
    bytes += slice.bytes();
  }
  return bytes;
}

ShardWriter::ShardWriter(const std::string& path, ShardHeader header)
    : file_(path), header_(WithRoomForDigests(std::move(header))), hasher_(std::make_unique<Hasher>()) {
  file_.Append(FormatShardHeader(header_));
}

void ShardWriter::Append(std::span<const float> values) {
  std::span<const std::byte> bytes = std::as_bytes(values);
  while (!bytes.empty()) {
    assert(slice_ < header_.slices.size());
    const std::int64_t room = std::min(kChunkBytes - chunk_filled_, header_.slices[slice_].bytes() - slice_filled_);
    const auto part = bytes.first(static_cast<std::size_t>(std::min(room, static_cast<std::int64_t>(bytes.size()))));
    hasher_->Add(part);
    file_.Append(part);
    chunk_filled_ += static_cast<std::int64_t>(part.size());
    slice_filled_ += static_cast<std::int64_t>(part.size());
    bytes = bytes.subspan(part.size());
    if (static_cast<std::int64_t>(part.size()) == room) {
      EndChunk();
    }
  }
}

void ShardWriter::EndChunk() {
  ShardSlice& slice = header_.slices[slice_];
  slice.chunks[chunk_++] = hasher_->digest();
  hasher_ = std::make_unique<Hasher>();
  chunk_filled_ = 0;
  if (slice_filled_ == slice.bytes()) {
    ++slice_;
    chunk_ = 0;
    slice_filled_ = 0;
  }
  if (on_chunk_) {
    on_chunk_();
  }
}

void ShardWriter::WriteHeader() {
  assert(slice_ == header_.slices.size());
  file_.Overwrite(0, FormatShardHeader(header_));
}

void ShardWriter::Finish() {
  WriteHeader();
  Sync();
}

void ShardWriter::VerifyWritten() const {
  const InputFile file(file_.path());
  std::vector<std::byte> chunk(static_cast<std::size_t>(kChunkBytes));
  for (const ShardSlice& slice : header_.slices) {
    for (std::size_t i = 0; i < slice.chunks.size(); ++i) {
      const std::int64_t first = static_cast<std::int64_t>(i) * kChunkBytes;
      const auto part = std::span(chunk).first(static_cast<std::size_t>(std::min(kChunkBytes, slice.bytes() - first)));
      file.Read(slice.offset + first, part);
      Require(DigestOf(part) == slice.chunks[i],
              "'{}', tensor '{} {}', byte offset {}: what was read back is not what was written", file.path(),
              slice.kind, slice.tensor, slice.offset + first);
      if (on_chunk_) {
        on_chunk_();
      }
    }
  }
}

}  // namespace trireme
