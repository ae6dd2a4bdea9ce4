#include "checkpoint/read/chunk_reader.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/error.h"

namespace trireme {
namespace {

// More threads than these would only wait for the disk.
constexpr unsigned kMostThreads = 8;

std::vector<Problem> VerifyShard(const SlicesOfShard& shard) {
  std::vector<Problem> problems;
  try {
    const InputFile file(shard.path);
    for (const auto& [tensor, slice] : shard.slices) {
      ChunkReader reader(file, slice, *tensor);
      for (std::size_t chunk = 0; chunk < slice.chunks.size(); ++chunk) {
        if (std::optional<Problem> problem = reader.Load(static_cast<std::int64_t>(chunk))) {
          problems.push_back(std::move(*problem));
        }
      }
    }
  } catch (const Error& error) {
    problems.push_back({.file = shard.path, .tensor = "", .message = error.what()});
  }
  return problems;
}

}  // namespace

std::string Label(const ManifestTensor& tensor) { return tensor.kind + " " + tensor.name; }

std::optional<Problem> ChunkReader::Load(std::int64_t index) {
  const std::int64_t first = index * kChunkBytes;
  const std::int64_t bytes = std::min(kChunkBytes, slice_.bytes() - first);
  values_.resize(static_cast<std::size_t>(bytes / kElementBytes));
  Problem problem{.file = file_.path(), .tensor = Label(tensor_), .offset = slice_.offset + first, .message = ""};
  try {
    file_.Read(problem.offset, std::as_writable_bytes(std::span(values_)));
  } catch (const Error& error) {
    problem.message = error.what();
    return problem;
  }
  const Digest computed = DigestOf(std::as_bytes(std::span(values_)));
  const Digest& written = slice_.chunks[static_cast<std::size_t>(index)];
  if (computed == written) {
    return std::nullopt;
  }
  problem.message =
      fmt::format("{} bytes are damaged: their digest is {}, {} was saved", bytes, ToHex(computed), ToHex(written));
  return problem;
}

std::vector<std::vector<Problem>> VerifyShards(const std::vector<SlicesOfShard>& shards) {
  std::vector<std::vector<Problem>> problems(shards.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t shard = next++; shard < shards.size(); shard = next++) {
      problems[shard] = VerifyShard(shards[shard]);
    }
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < std::min(kMostThreads, std::thread::hardware_concurrency()) && i < shards.size(); ++i) {
    others.emplace_back(work);
  }
  work();
  for (std::thread& thread : others) {
    thread.join();
  }
  return problems;
}

}  // namespace trireme
