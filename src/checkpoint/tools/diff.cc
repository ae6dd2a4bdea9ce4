#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/hugging_face/safetensors.h"
#include "checkpoint/read/checkpoint_folder.h"
#include "checkpoint/tools/reports.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr std::int64_t kDiffBlock = std::int64_t{4} << 20;

struct TensorDifference {
  std::int64_t different = 0;  // elements whose bits differ
  std::int64_t first = -1;     // the first of them
  double largest = 0;          // absolute difference; infinite where one side is no number
};

void CompareBlock(std::span<const float> a, std::span<const float> b, std::int64_t start,
                  TensorDifference& difference) {
  if (std::memcmp(a.data(), b.data(), a.size_bytes()) == 0) {
    return;
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i])) {
      continue;
    }
    ++difference.different;
    difference.first = difference.first < 0 ? start + static_cast<std::int64_t>(i) : difference.first;
    const double distance = std::abs(double{a[i]} - double{b[i]});
    difference.largest = std::isfinite(distance) ? std::max(difference.largest, distance) : INFINITY;
  }
}

// Reads elements of one side, from `first` on.
using ReadValues = std::function<void(std::int64_t first, std::span<float> out)>;

TensorDifference CompareValues(std::int64_t count, const ReadValues& read_a, const ReadValues& read_b) {
  TensorDifference difference;
  std::vector<float> values_a(static_cast<std::size_t>(std::min(count, kDiffBlock)));
  std::vector<float> values_b(values_a.size());
  for (std::int64_t first = 0; first < count; first += kDiffBlock) {
    const auto size = static_cast<std::size_t>(std::min(kDiffBlock, count - first));
    read_a(first, std::span(values_a).first(size));
    read_b(first, std::span(values_b).first(size));
    CompareBlock(std::span(values_a).first(size), std::span(values_b).first(size), first, difference);
  }
  return difference;
}

TensorDifference Compare(const CheckpointReader& a, const StoredTensor& tensor_a, const CheckpointReader& b,
                         const StoredTensor& tensor_b) {
  return CompareValues(
      tensor_a.about.shape.count(), [&](std::int64_t first, std::span<float> out) { a.Read(tensor_a, first, out); },
      [&](std::int64_t first, std::span<float> out) { b.Read(tensor_b, first, out); });
}

// Collects lines for people and records for programs.
class DiffWriter {
 public:
  explicit DiffWriter(std::string when_equal) : when_equal_(std::move(when_equal)) {}

  void Value(const std::string& key, const std::string& a, const std::string& b) {
    if (a != b) {
      text_ += fmt::format("  {}: {} -> {}\n", key, a.empty() ? "(none)" : a, b.empty() ? "(none)" : b);
      values_.push_back({{"key", key}, {"a", a}, {"b", b}});
    }
  }

  void OnlyIn(const char* side, const ManifestTensor& tensor) {
    text_ += fmt::format("  {} {}: only in {}\n", tensor.kind, tensor.name, side);
    tensors_.push_back({{"name", tensor.name}, {"kind", tensor.kind}, {"only_in", side}});
  }

  void Shapes(const ManifestTensor& a, const ManifestTensor& b) {
    text_ += fmt::format("  {} {}: shape {} -> {}\n", a.kind, a.name, a.shape.ToString(), b.shape.ToString());
    tensors_.push_back({{"name", a.name}, {"kind", a.kind}, {"shapes", {a.shape.ToString(), b.shape.ToString()}}});
  }

  void Tensor(const ManifestTensor& tensor, const TensorDifference& difference) {
    if (difference.different == 0) {
      ++equal_;
      return;
    }
    text_ += fmt::format("  {} {}: {} of {} elements differ, by at most {:g}, first at {}\n", tensor.kind, tensor.name,
                         difference.different, tensor.shape.count(), difference.largest, difference.first);
    tensors_.push_back({{"name", tensor.name},
                        {"kind", tensor.kind},
                        {"different", difference.different},
                        {"elements", tensor.shape.count()},
                        {"largest", difference.largest},
                        {"first", difference.first}});
  }

  Report Finish(const std::string& a, const std::string& b) {
    const bool same = values_.empty() && tensors_.empty();
    const json root = {{"equal", same},      {"a", a}, {"b", b}, {"equal_tensors", equal_}, {"values", values_},
                       {"tensors", tensors_}};
    return {.status = same ? 0 : 1,
            .text = fmt::format("{}\n{}\n{}  {} tensors are equal bit for bit{}\n", a, b, text_, equal_,
                                same ? "; " + when_equal_ : ""),
            .json = JsonText(root, {.indent = 1})};
  }

 private:
  std::string text_;
  std::string when_equal_;
  json values_ = json::array();
  json tensors_ = json::array();
  std::int64_t equal_ = 0;
};

void DiffState(const RunState& a, const RunState& b, DiffWriter& writer) {
  writer.Value("step", std::to_string(a.step), std::to_string(b.step));
  writer.Value("consumed_samples", std::to_string(a.consumed_samples), std::to_string(b.consumed_samples));
  writer.Value("updates", std::to_string(a.updates), std::to_string(b.updates));
  writer.Value("loss_scale", fmt::format("{}", a.loss_scale), fmt::format("{}", b.loss_scale));
  writer.Value("seed", std::to_string(a.seed), std::to_string(b.seed));
  writer.Value("program", a.program, b.program);
  std::map<std::string, std::pair<std::string, std::string>> keys;
  for (const KeyValue& key : a.keys) {
    keys[key.key].first = key.value;
  }
  for (const KeyValue& key : b.keys) {
    keys[key.key].second = key.value;
  }
  for (const auto& [key, values] : keys) {
    writer.Value(key, values.first, values.second);
  }
}

namespace fs = std::filesystem;

bool IsDump(const std::string& path) { return path.ends_with(".safetensors") && fs::is_regular_file(path); }

// The dumps of a folder by name: step-000012-before-rank-3.safetensors.
std::map<std::string, std::string> DumpsOf(const std::string& folder) {
  std::map<std::string, std::string> dumps;
  std::error_code status;
  for (const auto& entry : fs::directory_iterator(folder, status)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && IsDump(entry.path().string())) {
      dumps[name] = entry.path().string();
    }
  }
  return dumps;
}

// An open dump of weights.
class DumpFile {
 public:
  explicit DumpFile(const std::string& path) : file_(path), header_(ReadSafetensorsHeader(file_)) {
    for (const SafetensorsEntry& entry : header_.entries) {
      Require(entry.dtype == "F32", "'{}': '{}' is {}; a dump of weights holds F32", path, entry.name, entry.dtype);
    }
  }
  const SafetensorsHeader& header() const { return header_; }
  void Read(const SafetensorsEntry& entry, std::int64_t first, std::span<float> out) const {
    file_.Read(header_.data_start + entry.begin + first * 4, std::as_writable_bytes(out));
  }

 private:
  InputFile file_;
  SafetensorsHeader header_;
};

Shape ShapeOf(const SafetensorsEntry& entry) {
  const std::vector<std::int64_t>& own = entry.shape;
  switch (own.size()) {
    case 1:
      return {own[0]};
    case 2:
      return {own[0], own[1]};
    case 3:
      return {own[0], own[1], own[2]};
    default:
      Fail("'{}' has {} dims; a weight has 1 to 3", entry.name, own.size());
  }
}

ManifestTensor AboutOf(const SafetensorsEntry& entry, const std::string& prefix) {
  return {.name = prefix + entry.name, .kind = "weight", .shape = ShapeOf(entry)};
}

// Weights alone: step, moment and rank of the two may differ.
void DiffDumpFiles(const std::string& path_a, const std::string& path_b, const std::string& prefix,
                   DiffWriter& writer) {
  const DumpFile a(path_a);
  const DumpFile b(path_b);
  for (const SafetensorsEntry& entry : a.header().entries) {
    const SafetensorsEntry* other = b.header().Find(entry.name);
    const ManifestTensor about = AboutOf(entry, prefix);
    if (other == nullptr) {
      writer.OnlyIn("a", about);
    } else if (other->shape != entry.shape) {
      writer.Shapes(about, AboutOf(*other, prefix));
    } else {
      writer.Tensor(about,
                    CompareValues(
                        entry.count(), [&](std::int64_t first, std::span<float> out) { a.Read(entry, first, out); },
                        [&](std::int64_t first, std::span<float> out) { b.Read(*other, first, out); }));
    }
  }
  for (const SafetensorsEntry& entry : b.header().entries) {
    if (a.header().Find(entry.name) == nullptr) {
      writer.OnlyIn("b", AboutOf(entry, prefix));
    }
  }
}

// Two dumps, or two folders of them file by file.
Report DiffDumps(const std::string& path_a, const std::string& path_b) {
  DiffWriter writer("the weights are equal");
  if (IsDump(path_a) && IsDump(path_b)) {
    DiffDumpFiles(path_a, path_b, "", writer);
    return writer.Finish(path_a, path_b);
  }
  const std::map<std::string, std::string> dumps_a = DumpsOf(path_a);
  const std::map<std::string, std::string> dumps_b = DumpsOf(path_b);
  Require(!dumps_a.empty() && !dumps_b.empty(),
          "'{}' is no dump of weights (log.dump_steps) and no folder of them: two dumps, two folders of dumps or two "
          "checkpoints are compared",
          dumps_a.empty() ? path_a : path_b);
  for (const auto& [name, path] : dumps_a) {
    const auto other = dumps_b.find(name);
    other == dumps_b.end() ? writer.Value(name, "there", "") : DiffDumpFiles(path, other->second, name + " ", writer);
  }
  for (const auto& [name, path] : dumps_b) {
    if (!dumps_a.contains(name)) {
      writer.Value(name, "", "there");
    }
  }
  return writer.Finish(path_a, path_b);
}

}  // namespace

Report DiffCheckpoints(const std::string& path_a, const std::string& path_b) {
  if (IsDump(path_a) || IsDump(path_b) || !DumpsOf(path_a).empty()) {
    return DiffDumps(path_a, path_b);
  }
  const CheckpointReader a(ResolveCheckpoint(path_a));
  const CheckpointReader b(ResolveCheckpoint(path_b));
  DiffWriter writer("the checkpoints are equal");
  DiffState(a.manifest().state, b.manifest().state, writer);
  for (const StoredTensor& tensor : a.tensors()) {
    const StoredTensor* other = b.Find(tensor.about.name, tensor.about.kind);
    if (other == nullptr) {
      writer.OnlyIn("a", tensor.about);
    } else if (other->about.shape != tensor.about.shape) {
      writer.Shapes(tensor.about, other->about);
    } else {
      writer.Tensor(tensor.about, Compare(a, tensor, b, *other));
    }
  }
  for (const StoredTensor& tensor : b.tensors()) {
    if (a.Find(tensor.about.name, tensor.about.kind) == nullptr) {
      writer.OnlyIn("b", tensor.about);
    }
  }
  return writer.Finish(a.folder(), b.folder());
}

}  // namespace trireme
