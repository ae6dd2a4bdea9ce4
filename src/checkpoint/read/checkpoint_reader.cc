#include "checkpoint/read/checkpoint_reader.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>
#include <tuple>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/wide_count.h"
#include "checkpoint/format/rank_choices.h"
#include "checkpoint/read/chunk_reader.h"

namespace trireme {
namespace {

constexpr std::int64_t kLargestCheckpointIndex = std::int64_t{4} << 30;
// Floats read at a time when a whole tensor is walked.
constexpr std::int64_t kBlock = std::int64_t{16} << 20;

// Elements [global, global + count) lie at `stored` of a slice and go to `out` of the caller's memory.
struct Transfer {
  std::int64_t global = 0;
  std::int64_t count = 0;
  std::int64_t stored = 0;
  std::int64_t out = 0;
};

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

// The bytes of a shard's header, once size and digest are those that were saved.
std::string CheckedHeader(const std::string& path, const ManifestShard& shard) {
  ShardBytes bytes = ReadShardBytes(path);
  Require(bytes.file == shard.bytes, "'{}' has {} bytes, {} were saved", path, bytes.file, shard.bytes);
  const Digest digest = DigestOf(bytes.header);
  Require(digest == shard.header, "'{}': the header is damaged: its digest is {}, {} was saved", path, ToHex(digest),
          ToHex(shard.header));
  return std::move(bytes.header);
}

void CheckCounts(const CheckpointIndex& index, const std::string& folder) {
  for (std::int64_t i = 0; i < index.tensors(); ++i) {
    const ManifestTensor about = index.Tensor(i);
    WideCount count = 0;
    for (const StoredSlice& stored : index.Slices(i)) {
      count += static_cast<WideCount>(stored.slice.count());
    }
    Require(count == static_cast<WideCount>(about.shape.count()), "'{}': the shards hold {} of the {} elements of '{}'",
            folder, static_cast<std::int64_t>(count), about.shape.count(), Label(about));
  }
}

// Begins what CheckpointReader::Pack makes; the manifest's text and the index follow.
struct PackedHead {
  std::uint64_t manifest_bytes = 0;
  std::uint64_t shards_checked = 0;
};

PackedHead HeadOf(const std::string& packed, std::size_t begin, const std::string& folder) {
  PackedHead head;
  Require(packed.size() >= begin && packed.size() - begin >= sizeof head, "'{}': nothing came from rank 0", folder);
  std::memcpy(&head, packed.data() + begin, sizeof head);
  Require(head.manifest_bytes <= packed.size() - begin - sizeof head, "'{}': its manifest did not come whole", folder);
  return head;
}

}  // namespace

std::string Problem::ToString() const {
  std::string text = "'" + file + "'";
  text += tensor.empty() ? "" : ", tensor '" + tensor + "'";
  text += offset < 0 ? "" : fmt::format(", byte offset {}", offset);
  return text + ": " + message;
}

CheckpointReader::CheckpointReader(std::string folder, ShardChecks checks)
    : folder_(std::move(folder)), manifest_(ReadManifest(folder_)) {
  if (manifest_.index) {
    try {
      OpenIndex();
    } catch (const Error& error) {
      index_problem_ = error.what();
      index_.reset();
    }
  }
  if (!index_) {
    IndexHeaders();
    shards_checked_ = true;
  }
  ListTensors();
  if (checks == ShardChecks::kAll && !shards_checked_) {
    CheckShards(0, 1);
    shards_checked_ = true;
  }
}

CheckpointReader::CheckpointReader(std::string folder, const std::shared_ptr<const std::string>& packed,
                                   std::size_t begin)
    : folder_(std::move(folder)) {
  const PackedHead head = HeadOf(*packed, begin, folder_);
  const std::string_view text = std::string_view(*packed).substr(begin + sizeof head, head.manifest_bytes);
  manifest_ = ParseManifest(text, folder_ + "/" + kManifestFile, ShardList::kLeftOut);
  index_.emplace(packed, folder_ + "/" + kIndexFile, begin + sizeof head + head.manifest_bytes);
  shards_checked_ = head.shards_checked != 0;
  ListTensors();
}

std::string CheckpointReader::Pack() const {
  const std::string text =
      FormatManifest({.state = manifest_.state, .tensors = manifest_.tensors, .shards = {}, .index = {}});
  const PackedHead head{.manifest_bytes = text.size(), .shards_checked = shards_checked_ ? 1U : 0U};
  std::string packed(reinterpret_cast<const char*>(&head), sizeof head);
  packed += text;
  packed += index_->bytes();
  return packed;
}

std::string CheckpointReader::DeviceChoices(std::int64_t rank) const {
  const auto of_shard = [&](std::int64_t shard) { return ParseRankChoices(index_->DeviceChoices(shard), folder_); };
  // All shards but the last hold the state of equally many ranks.
  const auto each = static_cast<std::int64_t>(of_shard(0).size());
  const std::int64_t last = index_->shards() - 1;
  const std::int64_t saved = rank % (last * each + static_cast<std::int64_t>(of_shard(last).size()));
  const std::vector<std::string> choices = of_shard(saved / each);
  Require(saved % each < static_cast<std::int64_t>(choices.size()), "'{}': no device choices of rank {}", folder_,
          saved);
  return choices[static_cast<std::size_t>(saved % each)];
}

void CheckpointReader::OpenIndex() {
  const std::string path = folder_ + "/" + kIndexFile;
  const auto bytes = std::make_shared<const std::string>(ReadWholeFile(path, kLargestCheckpointIndex));
  const Digest digest = DigestOf(*bytes);
  Require(static_cast<std::int64_t>(bytes->size()) == manifest_.index->bytes && digest == manifest_.index->digest,
          "'{}' is damaged: {} bytes of digest {}, {} of {} were saved", path, bytes->size(), ToHex(digest),
          manifest_.index->bytes, ToHex(manifest_.index->digest));
  index_.emplace(bytes, path);
  CheckIndex();
}

void CheckpointReader::CheckIndex() const {
  const auto same_tensors = [&] {
    const auto count = static_cast<std::int64_t>(manifest_.tensors.size());
    bool same = index_->tensors() == count;
    for (std::int64_t i = 0; same && i < count; ++i) {
      same = index_->Tensor(i) == manifest_.tensors[static_cast<std::size_t>(i)];
    }
    return same;
  };
  const auto same_shards = [&] {
    const auto count = static_cast<std::int64_t>(manifest_.shards.size());
    bool same = index_->shards() == count && index_->first_shard() == 0;
    for (std::int64_t i = 0; same && i < count; ++i) {
      same = index_->Shard(i) == manifest_.shards[static_cast<std::size_t>(i)];
    }
    return same;
  };
  Require(index_->step() == manifest_.state.step && same_tensors() && same_shards(),
          "'{}/{}' and the manifest do not agree about the checkpoint", folder_, kIndexFile);
  CheckCounts(*index_, folder_);
}

void CheckpointReader::IndexHeaders() {
  CheckpointIndexBuilder builder(manifest_.state.step, 0);
  for (const ManifestShard& shard : manifest_.shards) {
    const std::int64_t number = static_cast<std::int64_t>(builder.shards().size());
    const std::string path = folder_ + "/" + shard.file;
    ShardHeader header = ParseShardHeader(CheckedHeader(path, shard), shard.bytes, path);
    Require(header.step == manifest_.state.step && header.rank == number, "'{}' is the shard of rank {} at step {}",
            path, header.rank, header.step);
    for (const ShardSlice& slice : header.slices) {
      const ManifestTensor about{.name = slice.tensor, .kind = slice.kind, .shape = slice.shape};
      const auto found = std::lower_bound(
          manifest_.tensors.begin(), manifest_.tensors.end(), about,
          [](const auto& a, const auto& b) { return std::tie(a.kind, a.name) < std::tie(b.kind, b.name); });
      Require(found != manifest_.tensors.end() && *found == about,
              "'{}' holds '{}' ({}), which the manifest does not know under that shape", path, slice.tensor,
              slice.kind);
    }
    builder.AddShard(shard, std::move(header));
  }
  builder.AddAbsent(manifest_.tensors);
  index_.emplace(std::make_shared<const std::string>(builder.Format()), folder_);
  CheckCounts(*index_, folder_);
}

void CheckpointReader::ListTensors() {
  for (const ManifestTensor& tensor : manifest_.tensors) {
    tensors_.push_back({.about = tensor, .number = static_cast<std::int64_t>(tensors_.size())});
  }
}

void CheckpointReader::CheckShards(std::int64_t first, std::int64_t stride) const {
  for (std::int64_t shard = first; shard < index_->shards(); shard += stride) {
    CheckedHeader(PathOf(shard), index_->Shard(shard));
  }
}

std::shared_ptr<const InputFile> CheckpointReader::FileOf(std::int64_t shard) const {
  const std::lock_guard lock(mutex_);
  if (open_shard_ != shard) {
    open_file_ = nullptr;  // closed before the next is opened
    open_shard_ = -1;
    open_file_ = std::make_shared<const InputFile>(PathOf(shard));
    open_shard_ = shard;
  }
  return open_file_;
}

std::vector<StoredSlice> CheckpointReader::Slices(const StoredTensor& tensor, const ElementRange& range) const {
  return index_->Slices(tensor.number, range);
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
  const ElementRange range{.low = wanted.front().global, .high = wanted.back().global + wanted.back().count};
  for (const StoredSlice& stored : Slices(tensor, range)) {
    const std::vector<Transfer> transfers = TransfersBetween(wanted, stored.slice);
    if (!transfers.empty()) {
      const std::shared_ptr<const InputFile> file = FileOf(stored.shard);
      ChunkReader reader(*file, stored.slice, tensor.about);
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

void CheckpointReader::VerifyData(const std::function<void(const Problem&)>& report) const {
  std::vector<SlicesOfShard> by_shard(static_cast<std::size_t>(shards()));
  for (std::size_t shard = 0; shard < by_shard.size(); ++shard) {
    by_shard[shard].path = PathOf(static_cast<std::int64_t>(shard));
  }
  for (const StoredTensor& tensor : tensors_) {
    for (StoredSlice& stored : Slices(tensor)) {
      by_shard[static_cast<std::size_t>(stored.shard)].slices.emplace_back(&tensor.about, std::move(stored.slice));
    }
  }
  for (const std::vector<Problem>& problems : VerifyShards(by_shard)) {
    std::for_each(problems.begin(), problems.end(), report);
  }
}

void CheckpointReader::VerifyCoverage(const std::function<void(const Problem&)>& report) const {
  for (const StoredTensor& tensor : tensors_) {
    const std::vector<SliceRun> whole = {{.local = 0, .global = 0, .count = tensor.about.shape.count()}};
    std::vector<Transfer> found;
    for (const StoredSlice& stored : Slices(tensor)) {
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
