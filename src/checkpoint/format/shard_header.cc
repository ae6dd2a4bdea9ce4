#include "checkpoint/format/shard_header.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/format/bounded_json.h"
#include "checkpoint/format/shape_json.h"
#include "checkpoint/hugging_face/safetensors.h"
#include "data/files/input_file.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr char kShardFormat[] = "trireme-shard";
constexpr std::int64_t kShardVersion = 1;
constexpr char kMetadataKey[] = "trireme";

// Names of a file's tensors. A shard may hold several parts of one tensor.
class EntryNames {
 public:
  std::string Next(const ShardSlice& slice) {
    const std::string first = slice.kind + "." + slice.tensor;
    std::string name = first;
    for (int& copies = copies_[first]; !taken_.insert(name).second;) {
      copies = std::max(copies, 1) + 1;
      name = fmt::format("{}#{}", first, copies);
    }
    return name;
  }

 private:
  std::set<std::string> taken_;
  std::map<std::string, int> copies_;
};

json SliceJson(const ShardSlice& slice) {
  json pieces = json::array();
  for (const SlicePiece& piece : slice.pieces) {
    pieces.push_back({piece.first, piece.count, piece.stride, piece.times});
  }
  json chunks = json::array();
  for (const Digest& digest : slice.chunks) {
    chunks.push_back(ToHex(digest));
  }
  return {{"tensor", slice.tensor},
          {"kind", slice.kind},
          {"shape", Extents(slice.shape)},
          {"pieces", pieces},
          {"chunks", chunks}};
}

ShardSlice ParseSlice(const json& value, const SafetensorsEntry& entry, const std::string& origin) {
  ShardSlice slice{.tensor = TextOf(value, "tensor", origin), .kind = TextOf(value, "kind", origin)};
  RequirePlainName(slice.tensor, origin);
  RequirePlainName(slice.kind, origin);
  slice.shape = ParseShape(ArrayOf(value, "shape", origin), origin, slice.tensor);
  Require(entry.dtype == "F32", "'{}': '{}' has the dtype {}; state is F32", origin, slice.tensor, entry.dtype);
  for (const json& piece : ArrayOf(value, "pieces", origin)) {
    const auto numbers = CountsOf(piece, "pieces of " + slice.tensor, origin);
    Require(numbers.size() == 4, "'{}': a piece of '{}' has {} numbers instead of 4", origin, slice.tensor,
            numbers.size());
    slice.pieces.push_back({.first = numbers[0], .count = numbers[1], .stride = numbers[2], .times = numbers[3]});
  }
  Require(!slice.pieces.empty(), "'{}': '{}' has no pieces", origin, slice.tensor);
  RequireWithin(slice.pieces, {.count = slice.shape.count(), .elements = entry.count()}, origin, slice.tensor);
  for (const json& digest : ArrayOf(value, "chunks", origin)) {
    Require(digest.is_string(), "'{}': a chunk of '{}' has no digest", origin, slice.tensor);
    slice.chunks.push_back(ParseDigest(digest.get<std::string>()));
  }
  Require(static_cast<std::int64_t>(slice.chunks.size()) == CeilDiv(slice.bytes(), kChunkBytes),
          "'{}': '{}' has {} chunk digests for {} bytes", origin, slice.tensor, slice.chunks.size(), slice.bytes());
  return slice;
}

}  // namespace

std::string ShardFileName(std::int64_t rank) { return fmt::format("shard-{:05}.safetensors", rank); }

std::string FormatShardHeader(ShardHeader& header) {
  std::vector<SafetensorsEntry> entries;
  json slices = json::object();
  EntryNames names;
  std::int64_t offset = 0;
  for (const ShardSlice& slice : header.slices) {
    const std::string name = names.Next(slice);
    const bool whole = slice.count() == slice.shape.count();
    entries.push_back({.name = name,
                       .dtype = "F32",
                       .shape = whole ? Extents(slice.shape) : std::vector<std::int64_t>{slice.count()},
                       .begin = offset,
                       .end = offset + slice.bytes()});
    slices[name] = SliceJson(slice);
    offset += slice.bytes();
  }
  json root = {{"format", kShardFormat},     {"version", kShardVersion}, {"step", header.step},
               {"attempt", header.attempt},  {"rank", header.rank},      {"ranks", header.ranks},
               {"chunk_bytes", kChunkBytes}, {"slices", slices}};
  if (!header.device_choices.empty()) {
    root["device_choices"] = header.device_choices;
  }
  std::string bytes = FormatSafetensorsHeader(
      {{"format", "pt"}, {kMetadataKey, JsonText(root, {.bad_utf8 = BadUtf8::kRefuse})}}, entries);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    header.slices[i].offset = static_cast<std::int64_t>(bytes.size()) + entries[i].begin;
  }
  return bytes;
}

ShardHeader ParseShardHeader(std::string_view bytes, std::int64_t file_bytes, const std::string& origin) {
  const SafetensorsHeader container = ParseSafetensorsHeader(bytes, file_bytes, origin);
  const auto text = container.metadata.find(kMetadataKey);
  Require(text != container.metadata.end(), "'{}' is no shard of a checkpoint: its metadata has no '{}'", origin,
          kMetadataKey);
  const json root = ParseBoundedJson(text->second, origin, {.depth = 6, .values = 5'000'000, .unique_keys = true});
  Require(TextOf(root, "format", origin) == kShardFormat && CountOf(root, "version", origin) == kShardVersion &&
              CountOf(root, "chunk_bytes", origin) == kChunkBytes,
          "'{}': a shard format that this program does not know", origin);
  ShardHeader header{.step = CountOf(root, "step", origin),
                     .attempt = CountOf(root, "attempt", origin),
                     .rank = CountOf(root, "rank", origin),
                     .ranks = CountOf(root, "ranks", origin)};
  if (root.contains("device_choices")) {
    header.device_choices = TextOf(root, "device_choices", origin);
  }
  const json& slices = ObjectOf(root, "slices", origin);
  Require(slices.size() == container.entries.size(), "'{}': {} tensors but {} slices", origin, container.entries.size(),
          slices.size());
  for (const SafetensorsEntry& entry : container.entries) {
    header.slices.push_back(ParseSlice(ObjectOf(slices, entry.name.c_str(), origin), entry, origin));
    header.slices.back().offset = container.data_start + entry.begin;
  }
  return header;
}

ShardBytes ReadShardBytes(const std::string& path) {
  std::error_code error;
  Require(!std::filesystem::is_symlink(std::filesystem::symlink_status(path, error)), "'{}' is a symbolic link", path);
  const InputFile file(path);
  return {.header = ReadSafetensorsHeaderBytes(file), .file = file.size()};
}

}  // namespace trireme
