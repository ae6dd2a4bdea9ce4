#include "infer/model_weights.h"

#include "base/float16.h"
#include "checkpoint/read/weight_source.h"

namespace trireme {
namespace {

void Upload(Device& device, const Tensor& to, const std::vector<float>& values) {
  if (to.dtype == DType::kFloat32) {
    device.CopyFromHost(to.data, values.data(), to.bytes());
    return;
  }
  const auto upload = [&](auto type) {
    const std::vector<decltype(type)> narrow(values.begin(), values.end());
    device.CopyFromHost(to.data, narrow.data(), to.bytes());
  };
  to.dtype == DType::kFloat16 ? upload(Float16{}) : upload(BFloat16{});
}

}  // namespace

std::int64_t ModelWeights::Bytes(const ParameterTable& table, const WeightSlice& slice) {
  std::int64_t bytes = 0;
  for (const Parameter& parameter : table.rows()) {
    bytes += RoundUp(LocalShape(parameter, slice.tensor).count() * SizeOf(slice.dtype), kArenaAlignment);
  }
  return bytes;
}

ModelWeights::ModelWeights(Arena& arena, const ParameterTable& table, const WeightSlice& slice,
                           const std::string& path) {
  const std::unique_ptr<WeightSource> source = OpenWeights(path);
  std::vector<float> values;
  for (const Parameter& parameter : table.rows()) {
    const Tensor to = arena.Allocate(MemoryKind::kWeights, slice.dtype, LocalShape(parameter, slice.tensor));
    values.assign(static_cast<std::size_t>(to.count()), 0.0F);
    source->Read(parameter, SliceRuns(parameter, slice.tensor, slice.tensor_rank), values.data());
    Upload(arena.device(), to, values);
    slices_.push_back(to);
  }
}

}  // namespace trireme
