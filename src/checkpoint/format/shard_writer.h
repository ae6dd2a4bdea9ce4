// Writes one shard file from its start to its end, digests on the way, and puts the header right when the last value
// is there. Holds one file handle and no values, so that import and convert can write what does not fit in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/durable_file.h"
#include "checkpoint/format/shard_header.h"

namespace trireme {

class ShardWriter {
 public:
  // `header` names slices with their pieces; offsets and digests are filled here. The file must not exist.
  ShardWriter(const std::string& path, ShardHeader header);

  // Called after every chunk that was written or read back; empty: no call.
  void set_on_chunk(std::function<void()> on_chunk) { on_chunk_ = std::move(on_chunk); }
  // The next values, slice after slice in the header's order; a call may end anywhere.
  void Append(std::span<const float> values);
  std::int64_t bytes() const { return file_.size(); }  // written so far
  // All values are there: writes the final header and brings the file to the disk.
  void Finish();
  // Finish() without the last step, and that step: a save can be killed between them by a test.
  void WriteHeader();
  void Sync() { file_.Close(); }
  // Reads the finished file back, past the system's cache where it allows, and compares every digest; an Error names
  // the tensor and the offset.
  void VerifyWritten() const;

 private:
  void EndChunk();

  DurableFile file_;
  ShardHeader header_;
  std::size_t slice_ = 0;
  std::size_t chunk_ = 0;
  std::int64_t chunk_filled_ = 0;  // bytes
  std::int64_t slice_filled_ = 0;
  std::unique_ptr<Hasher> hasher_;
  std::function<void()> on_chunk_;
};

// Bytes that the file of a header has.
std::int64_t ShardFileBytes(ShardHeader header);

}  // namespace trireme
