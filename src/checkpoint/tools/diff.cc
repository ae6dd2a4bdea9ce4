#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
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

TensorDifference Compare(const CheckpointReader& a, const StoredTensor& tensor_a, const CheckpointReader& b,
                         const StoredTensor& tensor_b) {
  TensorDifference difference;
  const std::int64_t count = tensor_a.about.shape.count();
  std::vector<float> values_a(static_cast<std::size_t>(std::min(count, kDiffBlock)));
  std::vector<float> values_b(values_a.size());
  for (std::int64_t first = 0; first < count; first += kDiffBlock) {
    const auto size = static_cast<std::size_t>(std::min(kDiffBlock, count - first));
    a.Read(tensor_a, first, std::span(values_a).first(size));
    b.Read(tensor_b, first, std::span(values_b).first(size));
    CompareBlock(std::span(values_a).first(size), std::span(values_b).first(size), first, difference);
  }
  return difference;
}

// Collects lines for people and records for programs.
class DiffWriter {
 public:
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
                                same ? "; the checkpoints are equal" : ""),
            .json = JsonText(root, {.indent = 1})};
  }

 private:
  std::string text_;
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

}  // namespace

Report DiffCheckpoints(const std::string& path_a, const std::string& path_b) {
  const CheckpointReader a(ResolveCheckpoint(path_a));
  const CheckpointReader b(ResolveCheckpoint(path_b));
  DiffWriter writer;
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
