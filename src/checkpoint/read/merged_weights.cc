#include "checkpoint/read/merged_weights.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kWeightEnding = ".weight";

ModelConfig WithoutAdapter(ModelConfig model) {
  model.adapter = {};
  return model;
}

class MergedWeights final : public WeightSource {
 public:
  explicit MergedWeights(std::unique_ptr<WeightSource> parts)
      : parts_(std::move(parts)), table_(parts_->model()), model_(WithoutAdapter(parts_->model())) {}

  const ModelConfig& model() const override { return model_; }

  void Read(const Parameter& parameter, std::span<const SliceRun> runs, float* out) const override {
    parts_->Read(parameter, runs, out);
    const AdapterRows rows = AdapterOf(table_, parameter);
    if (rows.a < 0) {
      return;
    }
    const std::vector<float> a = Whole(rows.a);
    const std::vector<float> b = Whole(rows.b);
    const std::int64_t columns = parameter.shape[1];
    for (const SliceRun& run : runs) {
      for (std::int64_t done = 0; done < run.count;) {
        const std::int64_t row = (run.global + done) / columns;
        const std::int64_t column = (run.global + done) % columns;
        const std::int64_t length = std::min(columns - column, run.count - done);
        AddRow(a, b, row, column, {out + run.local + done, static_cast<std::size_t>(length)});
        done += length;
      }
    }
  }

 private:
  std::vector<float> Whole(int row) const {
    const Parameter& parameter = table_.rows()[static_cast<std::size_t>(row)];
    std::vector<float> values(static_cast<std::size_t>(parameter.shape.count()));
    const SliceRun run{.count = parameter.shape.count()};
    parts_->Read(parameter, {&run, 1}, values.data());
    return values;
  }

  // Adds the elements of scale * B A from (row, column) on.
  void AddRow(const std::vector<float>& a, const std::vector<float>& b, std::int64_t row, std::int64_t column,
              std::span<float> out) const {
    const AdapterConfig& adapter = table_.config().adapter;
    const std::int64_t columns = static_cast<std::int64_t>(a.size()) / adapter.rank;
    std::vector<double> sums(out.size(), 0);
    for (std::int64_t k = 0; k < adapter.rank; ++k) {
      const double factor = b[static_cast<std::size_t>(row * adapter.rank + k)];
      const float* values = a.data() + k * columns + column;
      for (std::size_t i = 0; i < sums.size(); ++i) {
        sums[i] += factor * values[i];
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      out[i] = static_cast<float>(out[i] + adapter.scale() * sums[i]);
    }
  }

  std::unique_ptr<WeightSource> parts_;
  ParameterTable table_;
  ModelConfig model_;
};

}  // namespace

AdapterRows AdapterOf(const ParameterTable& table, const Parameter& weight) {
  if (!table.config().adapter.any() || !weight.name.ends_with(kWeightEnding)) {
    return {};
  }
  const std::string stem = weight.name.substr(0, weight.name.size() - kWeightEnding.size());
  return {.a = table.Find(stem + ".lora_a"), .b = table.Find(stem + ".lora_b")};
}

std::unique_ptr<WeightSource> OpenWithoutAdapters(const std::string& path, bool merge) {
  std::unique_ptr<WeightSource> weights = OpenWeights(path);
  if (!weights->model().adapter.any()) {
    return weights;
  }
  Require(merge,
          "'{}' has LoRA adapters of rank {}: --merge adds them to the weights, --adapter writes them alone in PEFT's "
          "form",
          path, weights->model().adapter.rank);
  return std::make_unique<MergedWeights>(std::move(weights));
}

}  // namespace trireme
