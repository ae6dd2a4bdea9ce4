#include "train/float8_choice.h"

#include <vector>

#include "cost/step_cost.h"
#include "device/best_seconds.h"

namespace trireme {
namespace {

// Beyond this factor, either way, the rule decides.
constexpr double kClearGain = 1.3;

// What the products of one layer read and write, in memory of their own.
class LinearBench {
 public:
  LinearBench(Device& device, const LinearShape& shape) : device_(device), shape_(shape) {
    const Shape inputs{shape.rows, shape.inputs};
    const Shape outputs{shape.rows, shape.outputs};
    const Shape weight{shape.outputs, shape.inputs};
    x_ = New(DType::kBFloat16, inputs);
    w_ = New(DType::kBFloat16, weight);
    gradient_ = New(DType::kBFloat16, outputs);
    y_ = New(DType::kBFloat16, outputs);
    grad_x_ = New(DType::kBFloat16, inputs);
    grad_w_ = New(DType::kFloat32, weight);
    grad_bias_ = New(DType::kFloat32, {shape.outputs});
    x8_ = NewCopies(DType::kFloat8E4M3, inputs);
    w8_ = NewCopies(DType::kFloat8E4M3, weight);
    gradient8_ = NewCopies(DType::kFloat8E5M2, outputs);
  }
  ~LinearBench() {
    for (void* memory : memory_) {
      device_.Free(memory);
    }
  }
  LinearBench(const LinearBench&) = delete;
  LinearBench& operator=(const LinearBench&) = delete;

  void RunBf16() {
    Ops& ops = device_.ops();
    ops.Matmul({.a = x_, .b = w_, .c = y_, .transpose_b = true});
    ops.Matmul({.a = gradient_, .b = w_, .c = grad_x_});
    ops.Matmul({.a = gradient_, .b = x_, .c = grad_w_, .transpose_a = true});
    if (shape_.bias) {
      ops.BiasGradient(gradient_, grad_bias_);
    }
  }

  void RunFloat8() {
    Copy(x_, x8_, {});
    Multiply(x8_, x8_.rows, w8_, w8_.rows, y_);
    Copy(gradient_, gradient8_, shape_.bias ? grad_bias_ : Tensor{});
    Multiply(gradient8_, gradient8_.rows, w8_, w8_.columns, grad_x_);
    Multiply(gradient8_, gradient8_.columns, x8_, x8_.columns, grad_w_);
  }

  void CopyWeight() { Copy(w_, w8_, {}); }

 private:
  struct Copies {
    Tensor rows;
    Tensor columns;
    Tensor scale;
    Tensor guess;
  };

  Tensor New(DType dtype, const Shape& shape) {
    memory_.push_back(device_.Allocate(shape.count() * SizeOf(dtype)));
    const Tensor tensor{memory_.back(), dtype, shape};
    device_.ops().Fill(tensor, 0);
    return tensor;
  }
  Copies NewCopies(DType dtype, const Shape& shape) {
    return {New(dtype, shape), New(dtype, {shape[1], shape[0]}), New(DType::kFloat32, {1}), New(DType::kFloat32, {1})};
  }
  void Copy(const Tensor& from, const Copies& to, const Tensor& sums) {
    device_.ops().Quantize({.from = from,
                            .rows = to.rows,
                            .columns = to.columns,
                            .scale = to.scale,
                            .column_sums = sums,
                            .guess = to.guess});
  }
  void Multiply(const Copies& left, const Tensor& a, const Copies& right, const Tensor& b, const Tensor& c) {
    device_.ops().Matmul({.a = a, .b = b, .c = c, .transpose_b = true, .scale_a = left.scale, .scale_b = right.scale});
  }

  Device& device_;
  LinearShape shape_;
  std::vector<void*> memory_;
  Tensor x_, w_, gradient_, y_, grad_x_, grad_w_, grad_bias_;
  Copies x8_, w8_, gradient8_;
};

// The first run may try algorithms.
constexpr TimedRounds kRounds{.least = 3, .calls = 10};

}  // namespace

double EstimatedGain(const LinearShape& shape) {
  constexpr double kBf16Flops = 650e12;
  constexpr double kFloat8Flops = 1200e12;
  constexpr double kBytes = 3.5e12;
  constexpr double kLaunches = 18e-6;  // of two copies and what they clear and add up
  const auto rows = static_cast<double>(shape.rows);
  const auto outputs = static_cast<double>(shape.outputs);
  const auto inputs = static_cast<double>(shape.inputs);
  const double flops = 6 * rows * outputs * inputs;
  // Two bytes are read and two written: the largest value is noted before, or the last scale is right (QuantizeArgs).
  const double copied = 4 * rows * (inputs + outputs);
  const double bias = shape.bias ? 2 * rows * outputs : 0;
  return (flops / kBf16Flops + bias / kBytes) / (flops / kFloat8Flops + copied / kBytes + kLaunches);
}

double MeasuredGain(Device& device, const LinearShape& shape) {
  LinearBench bench(device, shape);
  bench.CopyWeight();
  const double bf16 = BestSeconds(device, kRounds, [&] { bench.RunBf16(); });
  const double float8 = BestSeconds(device, kRounds, [&] { bench.RunFloat8(); });
  return bf16 / float8;
}

std::string ChooseFloat8Products(const RunConfig& config, Device& device) {
  if (device.is_host() || device.is_paced()) {
    return "all";
  }
  const StageOfRun stage(config, 0, config.batch.global);
  const LocalSizes& sizes = stage.description().sizes;
  LinearSet set = 0;
  for (int i = 0; i < kBlockLinears; ++i) {
    const auto linear = static_cast<BlockLinear>(i);
    const LinearShape shape = ShapeOf(linear, sizes, config.model.linear_bias);
    double gain = EstimatedGain(shape);
    if (!config.train.deterministic && gain < kClearGain && gain > 1 / kClearGain) {
      gain = MeasuredGain(device, shape);
    }
    set = static_cast<LinearSet>(set | (gain > 1 ? SetOf(linear) : LinearSet{0}));
  }
  return Float8ProductsText(set);
}

}  // namespace trireme
