#include "checkpoint/format/checkpoint_index.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/wide_count.h"
#include "checkpoint/format/bounded_json.h"

namespace trireme {
namespace {

constexpr std::int64_t kWordBytes = 8;
constexpr std::int64_t kDigestBytes = 16;
constexpr std::int64_t kLargestWord = std::int64_t{1} << 53;
constexpr std::int64_t kIndexVersion = 1;
constexpr std::uint64_t kMagicWord = 0x5845444e49525254;  // "TRRINDEX"

}  // namespace

// Words and text of an index that is being written.
class IndexWriter {
 public:
  std::int64_t words() const { return static_cast<std::int64_t>(words_.size()) / kWordBytes; }
  void Put(std::int64_t value) { PutRaw(static_cast<std::uint64_t>(value)); }
  void PutRaw(std::uint64_t value) { words_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void PutText(const std::string& text) {
    const auto [place, fresh] = texts_.try_emplace(text, static_cast<std::int64_t>(text_.size()));
    text_ += fresh ? text : "";
    Put(place->second);
    Put(static_cast<std::int64_t>(text.size()));
  }
  void PutDigest(const Digest& digest) {
    PutRaw(digest.high);
    PutRaw(digest.low);
  }
  std::int64_t text_bytes() const { return static_cast<std::int64_t>(text_.size()); }
  std::string Take() {
    words_ += text_;
    PutDigest(DigestOf(words_));
    return std::move(words_);
  }
  // Replaces a word that was put before.
  void Replace(std::int64_t word, std::int64_t value) {
    std::memcpy(words_.data() + word * kWordBytes, &value, sizeof value);
  }

 private:
  std::string words_;
  std::string text_;
  std::map<std::string, std::int64_t> texts_;
};

CheckpointIndex::CheckpointIndex(std::shared_ptr<const std::string> file, std::string origin, std::size_t begin)
    : file_(std::move(file)), origin_(std::move(origin)), begin_(begin) {
  const std::int64_t size = static_cast<std::int64_t>(file_->size()) - static_cast<std::int64_t>(begin_);
  Require(size >= kHeadWords * kWordBytes + kDigestBytes && Word(kMagic) == kMagicWord,
          "'{}' is no index of a checkpoint", origin_);
  Require(Head(kVersion) == kIndexVersion, "'{}': an index of version {}; this program reads {}", origin_,
          Head(kVersion), kIndexVersion);
  WideCount words = kHeadWords;
  const auto section = [&](HeadWord count, std::int64_t each) {
    words += WideProduct(Head(count), each);
    return static_cast<std::int64_t>(std::min(words, static_cast<WideCount>(kLargestWord)));
  };
  tensors_at_ = section(kShards, kShardWords);
  slices_at_ = section(kTensors, kTensorWords);
  pieces_at_ = section(kSlices, kSliceWords);
  chunks_at_ = section(kPieces, kPieceWords);
  text_at_ = section(kChunks, kChunkWords);
  const WideCount whole = words * kWordBytes + static_cast<WideCount>(Head(kText)) + kDigestBytes;
  Require(whole == static_cast<WideCount>(size), "'{}' is cut short or damaged: its sections do not fill its {} bytes",
          origin_, size);
  Require(Head(kShards) > 0, "'{}' knows no shards", origin_);
}

std::string_view CheckpointIndex::bytes() const { return std::string_view(*file_).substr(begin_); }

void CheckpointIndex::CheckDigest() const {
  const std::string_view all = bytes();
  const std::string_view body = all.substr(0, all.size() - static_cast<std::size_t>(kDigestBytes));
  Digest written;
  std::memcpy(&written.high, body.data() + body.size(), kWordBytes);
  std::memcpy(&written.low, body.data() + body.size() + kWordBytes, kWordBytes);
  const Digest computed = DigestOf(body);
  Require(written == computed, "'{}' is damaged: its digest is {}, its bytes make {}", origin_, ToHex(written),
          ToHex(computed));
}

std::uint64_t CheckpointIndex::Word(std::int64_t word) const {
  std::uint64_t value = 0;
  std::memcpy(&value, file_->data() + begin_ + static_cast<std::size_t>(word * kWordBytes), sizeof value);
  return value;
}

std::int64_t CheckpointIndex::Count(std::int64_t word) const {
  const std::uint64_t value = Word(word);
  Require(value <= static_cast<std::uint64_t>(kLargestWord), "'{}' is damaged: word {} is {}", origin_, word, value);
  return static_cast<std::int64_t>(value);
}

std::string CheckpointIndex::Text(std::int64_t word) const {
  const std::int64_t first = Count(word);
  const std::int64_t length = Count(word + 1);
  Require(first + length <= Head(kText), "'{}' is damaged: a text leaves its section", origin_);
  return std::string(
      bytes().substr(static_cast<std::size_t>(text_at_ * kWordBytes + first), static_cast<std::size_t>(length)));
}

ManifestShard CheckpointIndex::Shard(std::int64_t shard) const {
  const std::int64_t at = shards_at_ + shard * kShardWords;
  ManifestShard about{.file = Text(at), .bytes = Count(at + 2), .header = {Word(at + 3), Word(at + 4)}};
  RequirePlainFileName(about.file, origin_);
  return about;
}

std::string CheckpointIndex::DeviceChoices(std::int64_t shard) const {
  return Text(shards_at_ + shard * kShardWords + 5);
}

ManifestTensor CheckpointIndex::Tensor(std::int64_t tensor) const {
  const std::int64_t at = tensors_at_ + tensor * kTensorWords;
  ManifestTensor about{.name = Text(at), .kind = Text(at + 2)};
  const std::int64_t rank = Count(at + 4);
  Require(rank >= 1 && rank <= Shape::kMaxRank, "'{}': '{}' has {} dimensions", origin_, about.name, rank);
  WideCount elements = 1;
  about.shape = rank == 1 ? Shape{0} : rank == 2 ? Shape{0, 0} : rank == 3 ? Shape{0, 0, 0} : Shape{0, 0, 0, 0};
  for (int dim = 0; dim < static_cast<int>(rank); ++dim) {
    about.shape[dim] = Count(at + 5 + dim);
    elements *= static_cast<WideCount>(about.shape[dim]);
    Require(about.shape[dim] > 0 && elements < static_cast<WideCount>(kLargestWord),
            "'{}': the shape of '{}' has too few or too many elements", origin_, about.name);
  }
  return about;
}

ShardSlice CheckpointIndex::DecodeSlice(std::int64_t slice, const ManifestTensor& about) const {
  const bool last = slice + 1 == Head(kSlices);
  const std::int64_t piece_end = last ? Head(kPieces) : SliceCount(slice + 1, 5);
  const std::int64_t chunk_end = last ? Head(kChunks) : SliceCount(slice + 1, 6);
  Require(piece_end <= Head(kPieces) && chunk_end <= Head(kChunks),
          "'{}' is damaged: a slice of '{}' leaves its section", origin_, about.name);
  ShardSlice decoded{
      .tensor = about.name, .kind = about.kind, .shape = about.shape, .pieces = {}, .offset = SliceCount(slice, 1)};
  WideCount elements = 0;
  for (std::int64_t piece = SliceCount(slice, 5); piece < piece_end; ++piece) {
    const std::int64_t at = pieces_at_ + piece * kPieceWords;
    decoded.pieces.push_back(
        {.first = Count(at), .count = Count(at + 1), .stride = Count(at + 2), .times = Count(at + 3)});
    elements += WideProduct(decoded.pieces.back().count, decoded.pieces.back().times);
  }
  Require(elements > 0 && elements <= static_cast<WideCount>(about.shape.count()),
          "'{}' is damaged: a slice of '{}' has too few or too many elements", origin_, about.name);
  RequireWithin(decoded.pieces, {.count = about.shape.count(), .elements = static_cast<std::int64_t>(elements)},
                origin_, about.name);
  for (std::int64_t chunk = SliceCount(slice, 6); chunk < chunk_end; ++chunk) {
    const std::int64_t at = chunks_at_ + chunk * kChunkWords;
    decoded.chunks.push_back({Word(at), Word(at + 1)});
  }
  Require(static_cast<std::int64_t>(decoded.chunks.size()) == CeilDiv(decoded.bytes(), kChunkBytes),
          "'{}' is damaged: '{}' has {} chunk digests for {} bytes", origin_, about.name, decoded.chunks.size(),
          decoded.bytes());
  return decoded;
}

std::vector<StoredSlice> CheckpointIndex::Slices(std::int64_t tensor, const ElementRange& range) const {
  const ManifestTensor about = Tensor(tensor);
  const std::int64_t first = Count(tensors_at_ + tensor * kTensorWords + 9);
  const std::int64_t last =
      tensor + 1 == tensors() ? Head(kSlices) : Count(tensors_at_ + (tensor + 1) * kTensorWords + 9);
  Require(first <= last && last <= Head(kSlices), "'{}' is damaged: the slices of '{}' leave their section", origin_,
          about.name);
  // Slices are sorted by their lowest element; `reach` is the highest that they and those before them have.
  const auto first_beyond = [&](std::int64_t field, std::int64_t limit) {
    std::int64_t low = first;
    std::int64_t high = last;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      SliceCount(middle, field) > limit ? high = middle : low = middle + 1;
    }
    return low;
  };
  std::vector<StoredSlice> found;
  const std::int64_t end = first_beyond(2, range.high - 1);
  for (std::int64_t slice = first_beyond(4, range.low); slice < end; ++slice) {
    if (SliceCount(slice, 3) <= range.low) {
      continue;
    }
    StoredSlice stored{.shard = SliceCount(slice, 0), .slice = DecodeSlice(slice, about)};
    Require(stored.shard < shards(), "'{}' is damaged: '{}' lies in shard {} of {}", origin_, about.name, stored.shard,
            shards());
    const std::int64_t file_bytes = Count(shards_at_ + stored.shard * kShardWords + 2);
    Require(stored.slice.offset + stored.slice.bytes() <= file_bytes,
            "'{}' is damaged: a slice of '{}' lies behind the end of its shard", origin_, about.name);
    stored.shard += first_shard();
    found.push_back(std::move(stored));
  }
  return found;
}

void CheckpointIndexBuilder::AddSlice(std::int64_t shard, ShardSlice slice, const std::string& origin) {
  auto [entry, fresh] = tensors_.try_emplace({slice.kind, slice.tensor}, Entry{.shape = slice.shape, .slices = {}});
  Require(fresh || entry->second.shape == slice.shape, "'{}': '{}' has another shape than in other shards", origin,
          slice.tensor);
  entry->second.slices.push_back({.shard = shard, .slice = std::move(slice)});
}

void CheckpointIndexBuilder::AddShard(const ManifestShard& shard, ShardHeader header) {
  const std::int64_t number = first_shard_ + static_cast<std::int64_t>(shards_.size());
  for (ShardSlice& slice : header.slices) {
    AddSlice(number, std::move(slice), shard.file);
  }
  shards_.push_back(shard);
  choices_.push_back(std::move(header.device_choices));
}

void CheckpointIndexBuilder::AddPart(const CheckpointIndex& part) {
  Require(part.first_shard() == first_shard_ + static_cast<std::int64_t>(shards_.size()),
          "'{}' begins with shard {}, not with {}", part.origin_, part.first_shard(), shards_.size());
  for (std::int64_t shard = 0; shard < part.shards(); ++shard) {
    shards_.push_back(part.Shard(shard));
    choices_.push_back(part.DeviceChoices(shard));
  }
  for (std::int64_t tensor = 0; tensor < part.tensors(); ++tensor) {
    for (StoredSlice& stored : part.Slices(tensor)) {
      AddSlice(stored.shard, std::move(stored.slice), part.origin_);
    }
  }
}

void CheckpointIndexBuilder::AddAbsent(const std::vector<ManifestTensor>& tensors) {
  for (const ManifestTensor& tensor : tensors) {
    tensors_.try_emplace({tensor.kind, tensor.name}, Entry{.shape = tensor.shape, .slices = {}});
  }
}

std::vector<ManifestTensor> CheckpointIndexBuilder::WholeTensors() const {
  std::vector<ManifestTensor> all;
  for (const auto& [key, entry] : tensors_) {
    std::int64_t count = 0;
    for (const StoredSlice& stored : entry.slices) {
      count += stored.slice.count();
    }
    Require(count == entry.shape.count(), "the ranks saved {} elements of '{}' ({}), which has {}", count, key.second,
            key.first, entry.shape.count());
    all.push_back({.name = key.second, .kind = key.first, .shape = entry.shape});
  }
  return all;
}

void CheckpointIndexBuilder::PutShards(IndexWriter& writer) const {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    writer.PutText(shards_[i].file);
    writer.Put(shards_[i].bytes);
    writer.PutDigest(shards_[i].header);
    writer.PutText(choices_[i]);
  }
}

std::vector<const StoredSlice*> CheckpointIndexBuilder::PutTensors(IndexWriter& writer) const {
  std::vector<const StoredSlice*> ordered;
  for (const auto& [key, entry] : tensors_) {
    writer.PutText(key.second);
    writer.PutText(key.first);
    writer.Put(entry.shape.rank());
    for (int dim = 0; dim < Shape::kMaxRank; ++dim) {
      writer.Put(dim < entry.shape.rank() ? entry.shape[dim] : 0);
    }
    writer.Put(static_cast<std::int64_t>(ordered.size()));
    for (const StoredSlice& stored : entry.slices) {
      ordered.push_back(&stored);
    }
    std::stable_sort(ordered.end() - static_cast<std::ptrdiff_t>(entry.slices.size()), ordered.end(),
                     [](const StoredSlice* a, const StoredSlice* b) {
                       return LowestOf(a->slice.pieces) < LowestOf(b->slice.pieces);
                     });
  }
  return ordered;
}

void CheckpointIndexBuilder::PutSlices(IndexWriter& writer, const std::vector<const StoredSlice*>& ordered) const {
  std::int64_t pieces = 0;
  std::int64_t chunks = 0;
  std::int64_t reach = 0;
  const ShardSlice* before = nullptr;
  for (const StoredSlice* stored : ordered) {
    const ShardSlice& slice = stored->slice;
    const bool same = before != nullptr && before->tensor == slice.tensor && before->kind == slice.kind;
    const std::int64_t high = HighestOf(slice.pieces);
    reach = same ? std::max(reach, high) : high;
    for (const std::int64_t word :
         {stored->shard - first_shard_, slice.offset, LowestOf(slice.pieces), high, reach, pieces, chunks}) {
      writer.Put(word);
    }
    pieces += static_cast<std::int64_t>(slice.pieces.size());
    chunks += static_cast<std::int64_t>(slice.chunks.size());
    before = &slice;
  }
  writer.Replace(CheckpointIndex::kSlices, static_cast<std::int64_t>(ordered.size()));
  writer.Replace(CheckpointIndex::kPieces, pieces);
  writer.Replace(CheckpointIndex::kChunks, chunks);
}

std::string CheckpointIndexBuilder::Format() const {
  IndexWriter writer;
  writer.PutRaw(kMagicWord);
  for (const std::int64_t word :
       {kIndexVersion, step_, attempt_, first_shard_, static_cast<std::int64_t>(shards_.size()),
        static_cast<std::int64_t>(tensors_.size())}) {
    writer.Put(word);
  }
  while (writer.words() < CheckpointIndex::kHeadWords) {
    writer.Put(0);  // counts that follow from what is put
  }
  PutShards(writer);
  const std::vector<const StoredSlice*> ordered = PutTensors(writer);
  PutSlices(writer, ordered);
  for (const StoredSlice* stored : ordered) {
    for (const SlicePiece& piece : stored->slice.pieces) {
      for (const std::int64_t word : {piece.first, piece.count, piece.stride, piece.times}) {
        writer.Put(word);
      }
    }
  }
  for (const StoredSlice* stored : ordered) {
    for (const Digest& chunk : stored->slice.chunks) {
      writer.PutDigest(chunk);
    }
  }
  writer.Replace(CheckpointIndex::kText, writer.text_bytes());
  return writer.Take();
}

}  // namespace trireme
