#include "measure/probe_tensors.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr std::int64_t kNoise = 1 << 16;

}  // namespace

ProbeTensors::ProbeTensors(Device& device, std::int64_t footprint) : device_(device), footprint_(footprint) {
  noise_ = {device_.Allocate(kNoise * 4), DType::kFloat32, {1, kNoise}};
  device_.ops().DrawNormal(noise_, {.key = 1, .stride = kNoise});
  memory_.push_back(noise_.data);
}

ProbeTensors::~ProbeTensors() {
  device_.Synchronize();
  for (void* const memory : memory_) {
    device_.Free(memory);
  }
}

Tensor ProbeTensors::Make(DType dtype, const Shape& shape) {
  const Tensor tensor{device_.Allocate(shape.count() * SizeOf(dtype)), dtype, shape};
  memory_.push_back(tensor.data);
  bytes_ += tensor.bytes();
  if (dtype != DType::kFloat32 && dtype != DType::kBFloat16) {
    device_.ops().Fill(tensor, 0);
    return tensor;
  }
  for (std::int64_t first = 0; first < shape.count(); first += kNoise) {
    const std::int64_t count = std::min(kNoise, shape.count() - first);
    device_.ops().Copy(tensor.Range(first, count), noise_.Range(0, count));
  }
  return tensor;
}

Tensor ProbeTensors::MakeIndices(std::int64_t count, std::int64_t most) {
  std::vector<std::int32_t> indices(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    indices[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i * 2654435761U) % most);
  }
  const Tensor tensor{device_.Allocate(count * 4), DType::kInt32, {count}};
  memory_.push_back(tensor.data);
  bytes_ += tensor.bytes();
  device_.CopyFromHost(tensor.data, indices.data(), tensor.bytes());
  return tensor;
}

}  // namespace trireme
