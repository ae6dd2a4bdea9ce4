// Tensors of tests on any device: made from names (equal names give equal numbers everywhere), read back as floats.
// Random values are drawn so that bf16 holds them exactly: an fp32 and a bf16 run start from the same numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"

namespace trireme {

inline constexpr DType kFloat = DType::kFloat32;
inline constexpr DType kE4M3 = DType::kFloat8E4M3;
inline constexpr DType kE5M2 = DType::kFloat8E5M2;

class Workbench {
 public:
  // The device must outlive the workbench; tensors live as long as the workbench.
  explicit Workbench(Device& device) : device_(device) {}
  ~Workbench();
  Workbench(const Workbench&) = delete;
  Workbench& operator=(const Workbench&) = delete;

  Tensor Normal(DType dtype, const Shape& shape, std::string_view name, float deviation = 1, float mean = 0);
  // int32, uniform in [low, high).
  Tensor Integers(const Shape& shape, std::string_view name, std::int64_t low, std::int64_t high);
  Tensor From(DType dtype, const Shape& shape, const std::vector<float>& values);
  Tensor Filled(DType dtype, const Shape& shape, float value);
  // NaN everywhere, so that an element which an operation forgets to write shows.
  Tensor Output(DType dtype, const Shape& shape);
  Tensor Copy(const Tensor& tensor);

  std::vector<float> Read(const Tensor& tensor);
  void Write(const Tensor& tensor, const std::vector<float>& values);
  Device& device() { return device_; }
  Ops& ops() { return device_.ops(); }

 private:
  Device& device_;
  std::vector<void*> blocks_;
};

std::unique_ptr<Device> CpuForTest(int threads = 1);

// sum of a[i] * b[i], in double.
double Dot(const std::vector<float>& a, const std::vector<float>& b);

// Largest |a - b| divided by the largest |b|; NaN, unequal infinities and different lengths give infinity.
double RelativeDifference(const std::vector<float>& a, const std::vector<float>& b);

// Compares `gradient` with central differences of loss() over every `stride`-th element of `variable` (fp32).
struct GradientCheck {
  Tensor variable;
  Tensor gradient;
  std::function<double()> loss;
  float step = 1e-2F;
  double tolerance = 4e-3;  // of 1 + |gradient|
  std::size_t stride = 1;
};
void ExpectGradient(Workbench& bench, const GradientCheck& check);

}  // namespace trireme
