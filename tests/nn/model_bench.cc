#include "nn/model_bench.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "base/random_normal.h"
#include "family_features.h"

namespace trireme {

HostBatch RandomBatch(const RunConfig& config, std::uint64_t seed) {
  HostBatch batch;
  const std::int64_t count = config.layout.micro_batch * config.model.sequence;
  const auto draw = [&](std::uint64_t i) {
    return static_cast<std::int32_t>(RandomBelow(seed, i, static_cast<std::uint64_t>(config.model.vocabulary)));
  };
  for (std::int64_t i = 0; i < count; ++i) {
    batch.tokens.push_back(draw(static_cast<std::uint64_t>(2 * i)));
    batch.targets.push_back(draw(static_cast<std::uint64_t>(2 * i + 1)));
  }
  batch.weights.assign(static_cast<std::size_t>(count), 1.0F);
  return batch;
}

ModelBench::ModelBench(const RunConfig& config, RankContext& context)
    : config_(config), stage_(config_, 0, config_.batch.global) {
  const std::vector<Parameter>& rows = table().rows();
  for (const Parameter& row : rows) {
    std::vector<float> values(static_cast<std::size_t>(LocalShape(row, 1).count()));
    const std::uint64_t key = RandomKey(5, row.name);
    const bool table = row.role == ParameterRole::kTokenTable || row.role == ParameterRole::kPositionTable;
    const float deviation = table ? 0.7F : 0.2F;
    for (std::int64_t i = 0; i < row.shape.count(); ++i) {
      values[static_cast<std::size_t>(i)] = deviation * RandomNormal(key, static_cast<std::uint64_t>(i)) +
                                            (row.initializer == Initializer::kOne ? 1.0F : 0.0F);
    }
    gradients_.emplace_back(values.size());
    weights_.push_back(std::move(values));
  }
  if (config_.model.position == PositionChoice::kAlibi) {
    slopes_ = AlibiSlopesOf(config_.model);
  }
  const StageDescription& description = stage_.description();
  const LocalSizes& sizes = description.sizes;
  losses_.resize(static_cast<std::size_t>(sizes.tokens));
  modules_ = std::make_unique<ModuleContext>(ModuleContext{
      .ops = context.device.ops(),
      .tensor_group = context.world,
      .parameters = *this,
      .gradients = *this,
      .table = table(),
      .model = config_.model,
      .scratch = Buffer(DType::kUInt8, {ScratchBytes(description)}).as<char>(),
      .slopes = slopes_.empty() ? Tensor{} : Tensor{slopes_.data(), DType::kFloat32, {config_.model.heads}},
      .z_loss = static_cast<float>(config_.train.z_loss)});
  whole_ = std::make_unique<Stage>(
      *modules_, description, 0,
      KeptMemory{.slots = Buffer(DType::kUInt8, {KeptBytes(description, 0)}).as<char>(),
                 .weights = Buffer(DType::kUInt8, {WeightCopyBytes(description, 0)}).as<char>()});
  output_ = Buffer(DType::kFloat32, {sizes.outside, sizes.hidden});
  spare_a_ = Buffer(DType::kFloat32, {sizes.outside, sizes.hidden});
  spare_b_ = Buffer(DType::kFloat32, {sizes.outside, sizes.hidden});
}

Tensor ModelBench::Buffer(DType dtype, const Shape& shape) {
  const std::int64_t bytes = shape.count() * SizeOf(dtype);
  memory_.push_back(std::make_unique<char[]>(static_cast<std::size_t>(bytes + 256)));
  char* const start = memory_.back().get();
  return {start + (256 - reinterpret_cast<std::uintptr_t>(start) % 256), dtype, shape};
}

Tensor ModelBench::View(std::vector<std::vector<float>>& rows, int row) {
  const auto at = static_cast<std::size_t>(row);
  return {rows[at].data(), DType::kFloat32, LocalShape(table().rows()[at], 1)};
}

MicroBatch ModelBench::View(const HostBatch& batch, bool training) {
  const LocalSizes& sizes = stage_.description().sizes;
  const auto view = [&](const auto& values, DType dtype, const Shape& shape) {
    return Tensor{const_cast<void*>(static_cast<const void*>(values.data())), dtype, shape};
  };
  double weight = 0;
  for (const float one : batch.weights) {
    weight += one;
  }
  MicroBatch micro_batch{.tokens = view(batch.tokens, DType::kInt32, {sizes.tokens}),
                         .targets = view(batch.targets, DType::kInt32, {sizes.tokens}),
                         .weights = view(batch.weights, DType::kFloat32, {sizes.tokens}),
                         .loss_sums = {loss_sums_, DType::kFloat32, {2}},
                         .dropout_key = 7,
                         .gradient_factor = static_cast<float>(1 / weight),
                         .training = training,
                         .first = true,
                         .last = true};
  if (!batch.document_starts.empty()) {
    micro_batch.document_starts = view(batch.document_starts, DType::kInt32, {sizes.batch, sizes.sequence});
  }
  return micro_batch;
}

double ModelBench::Loss(const HostBatch& batch) {
  whole_->Forward(View(batch, false), 0, output_);
  return static_cast<double>(loss_sums_[0]) / loss_sums_[1];
}

void ModelBench::ClearGradients() {
  for (std::size_t row = 0; row < gradients_.size(); ++row) {
    const Parameter& parameter = table().rows()[row];
    const bool overwritten = overwrites_ && parameter.role == ParameterRole::kWeight;
    gradients_[row].assign(gradients_[row].size(), overwritten ? std::numeric_limits<float>::quiet_NaN() : 0.0F);
  }
}

double ModelBench::Gradients(const HostBatch& batch) {
  ClearGradients();
  const MicroBatch micro_batch = View(batch, true);
  whole_->Forward(micro_batch, 0, output_);
  if (stage_.description().sizes.split_backward) {
    whole_->BackwardInput(micro_batch, 0, {}, spare_a_, spare_b_);
    whole_->BackwardWeight(micro_batch, 0);
  } else {
    whole_->Backward(micro_batch, 0, {}, spare_a_, spare_b_);
  }
  return static_cast<double>(loss_sums_[0]) / loss_sums_[1];
}

RunConfig OneRankRun(const std::string& family) {
  RunConfig config;
  config.model.family = family;
  config.model.layers = 2;
  config.model.hidden = 16;
  config.model.heads = 4;
  const bool grouped = family == "llama" || family == "qwen3" || family == "gemma2" || family == "olmo2";
  config.model.kv_heads = grouped ? 2 : 4;
  config.model.ffn = 24;
  config.model.vocabulary = 29;
  config.model.sequence = 6;
  UseFeatures(config.model);
  config.model = Completed(config.model);
  if (family == "opt") {
    config.model.feed_forward = ActivationKind::kSquaredRelu;  // finite differences step over ReLU's kink
  }
  config.batch.global = 3;
  config.layout.micro_batch = 3;
  config.train.device = "cpu";
  Validate(config, 1);
  return config;
}

void OnOneRank(const std::function<void(RankContext&)>& body) { RunThreadRanks(1, {.kind = "cpu"}, body); }

void ExpectDirections(const DirectionCheck& check) {
  const std::size_t count = check.values.size();
  ASSERT_EQ(count, check.gradient.size()) << check.name;
  double norm = 0;
  for (const float one : check.gradient) {
    norm += static_cast<double>(one) * one;
  }
  norm = std::sqrt(norm);
  ASSERT_TRUE(std::isfinite(norm)) << check.name;
  const std::vector<float> start = check.values;
  const std::uint64_t key = RandomKey(9, check.name);
  for (int number = 0; number <= check.random_directions; ++number) {
    const bool own = number == 0 && norm > 0;
    std::vector<double> direction(count);
    double length = 0;
    for (std::size_t i = 0; i < count; ++i) {
      direction[i] = own ? check.gradient[i] : RandomNormal(key, static_cast<std::uint64_t>(number) * count + i);
      length += direction[i] * direction[i];
    }
    length = std::sqrt(length);
    double expected = 0;
    for (std::size_t i = 0; i < count; ++i) {
      direction[i] /= length;
      expected += direction[i] * check.gradient[i];
    }
    const auto at = [&](double distance) {
      for (std::size_t i = 0; i < count; ++i) {
        check.values[i] = static_cast<float>(start[i] + distance * direction[i]);
      }
      return check.loss();
    };
    const double h = check.step;
    const double found = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
    check.values = start;
    EXPECT_NEAR(found, expected, check.relative * norm + check.absolute)
        << check.name << " along " << (own ? "its gradient" : "a random direction") << ", norm " << norm;
  }
}

}  // namespace trireme
