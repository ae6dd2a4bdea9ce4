#include "checkpoint/read/checkpoint_reader.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/wide_count.h"
#include "data/files/input_file.h"

namespace trireme {
namespace {

// Floats read at a time when a whole tensor is walked.
constexpr std::int64_t kBlock = std::int64_t{16} << 20;

// Elements [global, global + count) lie at `stored` of a slice and go to `out` of the caller's memory.
struct Transfer {
  std::int64_t global = 0;
  std::int64_t count = 0;
  std::int64_t stored = 0;
  std::int64_t out = 0;
};

std::string Label(const ManifestTensor& tensor) { return tensor.kind + " " + tensor.name; }

std::vector<SliceRun> Sorted(std::span<const SliceRun> runs) {
  std::vector<SliceRun> sorted(runs.begin(), runs.end());
  std::erase_if(sorted, [](const SliceRun& run) { return run.count == 0; });
  std::sort(sorted.begin(), sorted.end(), [](const SliceRun& a, const SliceRun& b) { return a.global < b.global; });
  return sorted;
}

// What a slice has of the wanted runs (sorted by global), in the order of the slice's bytes.
std::vector<Transfer> TransfersBetween(const std::vector<SliceRun>& wanted, const ShardSlice& slice) {
  std::vector<Transfer> transfers;
  const std::int64_t low = wanted.front().global;
  const std::int64_t high = wanted.back().global + wanted.back().count;
  if (LowestOf(slice.pieces) >= high || HighestOf(slice.pieces) <= low) {
    return transfers;
  }
  auto want = wanted.begin();
  for (const SliceRun& have : RunsOf(slice.pieces)) {
    while (want != wanted.end() && want->global + want->count <= have.global) {
      ++want;
    }
    for (auto each = want; each != wanted.end() && each->global < have.global + have.count; ++each) {
      const std::int64_t first = std::max(each->global, have.global);
      const std::int64_t last = std::min(each->global + each->count, have.global + have.count);
      transfers.push_back({.global = first,
                           .count = last - first,
                           .stored = have.local + first - have.global,
                           .out = each->local + first - each->global});
    }
  }
  std::sort(transfers.begin(), transfers.end(), [](const auto& a, const auto& b) { return a.stored < b.stored; });
  return transfers;
}

// One chunk of a slice, read whole and checked.
class ChunkReader {
 public:
  ChunkReader(const InputFile& file, const ShardSlice& slice, const ManifestTensor& tensor)
      : file_(file), slice_(slice), tensor_(tensor) {}

  // Makes chunk `index` the current one. What is wrong with it, if anything.
  std::optional<Problem> Load(std::int64_t index) {
    const std::int64_t first = index * kChunkBytes;
    const std::int64_t bytes = std::min(kChunkBytes, slice_.bytes() - first);
    values_.resize(static_cast<std::size_t>(bytes / kElementBytes));
    Problem problem{.file = file_.path(), .tensor = Label(tensor_), .offset = slice_.offset + first};
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

  const std::vector<float>& values() const { return values_; }

 private:
  const InputFile& file_;
  const ShardSlice& slice_;
  const ManifestTensor& tensor_;
  std::vector<float> values_;
};

void CopyTransfers(ChunkReader& reader, const std::vector<Transfer>& transfers, float* out) {
  constexpr std::int64_t kChunkElements = kChunkBytes / kElementBytes;
  std::int64_t loaded = -1;
  for (const Transfer& transfer : transfers) {
    for (std::int64_t done = 0; done < transfer.count;) {
      const std::int64_t place = transfer.stored + done;
      const std::int64_t chunk = place / kChunkElements;
      if (chunk != loaded) {
        const std::optional<Problem> problem = reader.Load(chunk);
        Require(!problem, "{}", problem ? problem->ToString() : "");
        loaded = chunk;
      }
      const std::int64_t count = std::min(transfer.count - done, (chunk + 1) * kChunkElements - place);
      std::memcpy(out + transfer.out + done, reader.values().data() + place % kChunkElements,
                  static_cast<std::size_t>(count * kElementBytes));
      done += count;
    }
  }
}

// The first element of `wanted` that `found` does not hold exactly once; nothing when all are.
std::optional<std::int64_t> FirstGap(const std::vector<SliceRun>& wanted, std::vector<Transfer> found) {
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.global < b.global; });
  auto next = found.begin();
  for (const SliceRun& run : wanted) {
    std::int64_t reached = run.global;
    for (; next != found.end() && next->global < run.global + run.count; ++next) {
      if (next->global != reached) {
        return std::min(reached, next->global);
      }
      reached += next->count;
    }
    if (reached != run.global + run.count) {
      return reached;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string Problem::ToString() const {
  std::string text = "'" + file + "'";
  text += tensor.empty() ? "" : ", tensor '" + tensor + "'";
  text += offset < 0 ? "" : fmt::format(", byte offset {}", offset);
  return text + ": " + message;
}

CheckpointReader::CheckpointReader(std::string folder) : folder_(std::move(folder)), manifest_(ReadManifest(folder_)) {
  for (const ManifestTensor& tensor : manifest_.tensors) {
    tensors_.push_back({.about = tensor});
  }
  for (std::size_t shard = 0; shard < manifest_.shards.size(); ++shard) {
    AddShard(static_cast<std::int64_t>(shard));
  }
  CheckCounts();
}

const std::string& CheckpointReader::DeviceChoices(std::int64_t rank) const {
  return device_choices_[static_cast<std::size_t>(rank) % device_choices_.size()];
}

std::string CheckpointReader::PathOf(std::int64_t shard) const {
  return folder_ + "/" + manifest_.shards[static_cast<std::size_t>(shard)].file;
}

void CheckpointReader::AddShard(std::int64_t index) {
  const ManifestShard& shard = manifest_.shards[static_cast<std::size_t>(index)];
  const std::string path = PathOf(index);
  const ShardBytes bytes = ReadShardBytes(path);
  Require(bytes.file == shard.bytes, "'{}' has {} bytes, {} were saved", path, bytes.file, shard.bytes);
  const Digest digest = DigestOf(bytes.header);
  Require(digest == shard.header, "'{}': the header is damaged: its digest is {}, {} was saved", path, ToHex(digest),
          ToHex(shard.header));
  ShardHeader header = ParseShardHeader(bytes.header, bytes.file, path);
  Require(header.step == manifest_.state.step && header.rank == index, "'{}' is the shard of rank {} at step {}", path,
          header.rank, header.step);
  device_choices_.push_back(std::move(header.device_choices));
  for (ShardSlice& slice : header.slices) {
    const StoredTensor* tensor = Find(slice.tensor, slice.kind);
    Require(tensor != nullptr && tensor->about.shape == slice.shape,
            "'{}' holds '{}' ({}), which the manifest does not know under that shape", path, slice.tensor, slice.kind);
    tensors_[static_cast<std::size_t>(tensor - tensors_.data())].slices.push_back(
        {.shard = index, .slice = std::move(slice)});
  }
}

void CheckpointReader::CheckCounts() const {
  for (const StoredTensor& tensor : tensors_) {
    WideCount count = 0;
    for (const StoredSlice& stored : tensor.slices) {
      count += static_cast<WideCount>(stored.slice.count());
    }
    Require(count == static_cast<WideCount>(tensor.about.shape.count()),
            "'{}': the shards hold {} of the {} elements of '{}'", folder_, static_cast<std::int64_t>(count),
            tensor.about.shape.count(), Label(tensor.about));
  }
}

const StoredTensor* CheckpointReader::Find(const std::string& name, const std::string& kind) const {
  const auto found = std::lower_bound(tensors_.begin(), tensors_.end(), std::pair(kind, name),
                                      [](const StoredTensor& tensor, const auto& key) {
                                        return std::pair(tensor.about.kind, tensor.about.name) < key;
                                      });
  const bool there = found != tensors_.end() && found->about.kind == kind && found->about.name == name;
  return there ? &*found : nullptr;
}

void CheckpointReader::Read(const StoredTensor& tensor, std::span<const SliceRun> runs, float* out) const {
  const std::vector<SliceRun> wanted = Sorted(runs);
  if (wanted.empty()) {
    return;
  }
  assert(wanted.front().global >= 0 && wanted.back().global + wanted.back().count <= tensor.about.shape.count());
  std::vector<Transfer> found;
  for (const StoredSlice& stored : tensor.slices) {
    const std::vector<Transfer> transfers = TransfersBetween(wanted, stored.slice);
    if (!transfers.empty()) {
      const InputFile file(PathOf(stored.shard));
      ChunkReader reader(file, stored.slice, tensor.about);
      CopyTransfers(reader, transfers, out);
      found.insert(found.end(), transfers.begin(), transfers.end());
    }
  }
  const std::optional<std::int64_t> gap = FirstGap(wanted, std::move(found));
  Require(!gap, "'{}', tensor '{}': element {} is not saved exactly once", folder_, Label(tensor.about),
          gap.value_or(0));
}

void CheckpointReader::Read(const StoredTensor& tensor, std::int64_t first, std::span<float> out) const {
  const SliceRun run{.local = 0, .global = first, .count = static_cast<std::int64_t>(out.size())};
  Read(tensor, std::span(&run, 1), out.data());
}

Digest CheckpointReader::DigestOfTensor(const StoredTensor& tensor) const {
  const std::int64_t count = tensor.about.shape.count();
  std::vector<float> block(static_cast<std::size_t>(std::min(count, kBlock)));
  Hasher hasher;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const auto part = std::span(block).first(static_cast<std::size_t>(std::min(kBlock, count - first)));
    Read(tensor, first, part);
    hasher.Add(std::as_bytes(part));
  }
  return hasher.digest();
}

void CheckpointReader::VerifyShard(std::int64_t shard, const std::function<void(const Problem&)>& report) const {
  const InputFile file(PathOf(shard));
  for (const StoredTensor& tensor : tensors_) {
    for (const StoredSlice& stored : tensor.slices) {
      if (stored.shard != shard) {
        continue;
      }
      ChunkReader reader(file, stored.slice, tensor.about);
      for (std::size_t chunk = 0; chunk < stored.slice.chunks.size(); ++chunk) {
        if (const auto problem = reader.Load(static_cast<std::int64_t>(chunk))) {
          report(*problem);
        }
      }
    }
  }
}

void CheckpointReader::VerifyCoverage(const std::function<void(const Problem&)>& report) const {
  for (const StoredTensor& tensor : tensors_) {
    const std::vector<SliceRun> whole = {{.local = 0, .global = 0, .count = tensor.about.shape.count()}};
    std::vector<Transfer> found;
    for (const StoredSlice& stored : tensor.slices) {
      const std::vector<Transfer> transfers = TransfersBetween(whole, stored.slice);
      found.insert(found.end(), transfers.begin(), transfers.end());
    }
    if (const auto gap = FirstGap(whole, std::move(found))) {
      report({.file = folder_,
              .tensor = Label(tensor.about),
              .message = fmt::format("element {} is not saved exactly once", *gap)});
    }
  }
}

}  // namespace trireme
