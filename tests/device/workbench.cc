#include "device/workbench.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>

#include "base/float16.h"
#include "base/float8.h"
#include "base/random_normal.h"

namespace trireme {
namespace {

constexpr std::uint64_t kSeed = 20240229;

// The first `count` numbers of a name. They are drawn once per thread: cases run in several types, at several levels
// and on several devices with equal numbers, and drawing them takes longer than most operations.
const std::vector<float>& StandardNormal(std::string_view name, std::size_t count) {
  thread_local std::map<std::string, std::vector<float>, std::less<>> drawn;
  std::vector<float>& values = drawn.try_emplace(std::string(name)).first->second;
  const std::uint64_t key = RandomKey(kSeed, name);
  for (std::size_t i = values.size(); i < count; ++i) {
    values.push_back(RandomNormal(key, i));
  }
  return values;
}

template <typename Convert>
void Encode(const std::vector<float>& values, std::vector<char>& bytes, Convert convert) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto stored = convert(values[i]);
    std::memcpy(bytes.data() + i * sizeof(stored), &stored, sizeof(stored));
  }
}

template <typename Stored, typename Convert>
void Decode(const std::vector<char>& bytes, std::vector<float>& values, Convert convert) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored stored{};
    std::memcpy(&stored, bytes.data() + i * sizeof(stored), sizeof(stored));
    values[i] = convert(stored);
  }
}

}  // namespace

Workbench::~Workbench() {
  device_.Synchronize();
  for (void* block : blocks_) {
    device_.Free(block);
  }
}

Tensor Workbench::From(DType dtype, const Shape& shape, const std::vector<float>& values) {
  Tensor tensor{device_.Allocate(shape.count() * SizeOf(dtype)), dtype, shape};
  blocks_.push_back(tensor.data);
  Write(tensor, values);
  return tensor;
}

Tensor Workbench::Normal(DType dtype, const Shape& shape, std::string_view name, float deviation, float mean) {
  std::vector<float> values(static_cast<std::size_t>(shape.count()));
  const std::vector<float>& drawn = StandardNormal(name, values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(BFloat16(mean + deviation * drawn[i]));
  }
  return From(dtype, shape, values);
}

Tensor Workbench::Integers(const Shape& shape, std::string_view name, std::int64_t low, std::int64_t high) {
  std::vector<float> values(static_cast<std::size_t>(shape.count()));
  const std::uint64_t key = RandomKey(kSeed, name);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto drawn = static_cast<std::int64_t>(RandomBelow(key, i, static_cast<std::uint64_t>(high - low)));
    values[i] = static_cast<float>(low + drawn);
  }
  return From(DType::kInt32, shape, values);
}

Tensor Workbench::Filled(DType dtype, const Shape& shape, float value) {
  return From(dtype, shape, std::vector<float>(static_cast<std::size_t>(shape.count()), value));
}

Tensor Workbench::Output(DType dtype, const Shape& shape) {
  return Filled(dtype, shape, std::numeric_limits<float>::quiet_NaN());
}

Tensor Workbench::Copy(const Tensor& tensor) { return From(tensor.dtype, tensor.shape, Read(tensor)); }

void Workbench::Write(const Tensor& tensor, const std::vector<float>& values) {
  ASSERT_EQ(tensor.shape.count(), static_cast<std::int64_t>(values.size()));
  std::vector<char> bytes(static_cast<std::size_t>(tensor.bytes()));
  switch (tensor.dtype) {
    case DType::kFloat32:
      Encode(values, bytes, [](float value) { return value; });
      break;
    case DType::kBFloat16:
      Encode(values, bytes, [](float value) { return BFloat16(value); });
      break;
    case DType::kFloat16:
      Encode(values, bytes, [](float value) { return Float16(value); });
      break;
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
      Encode(values, bytes, [&](float value) { return EncodeFloat8(value, tensor.dtype); });
      break;
    case DType::kInt32:
      Encode(values, bytes, [](float value) { return static_cast<std::int32_t>(value); });
      break;
    case DType::kUInt16:
      Encode(values, bytes, [](float value) { return static_cast<std::uint16_t>(value); });
      break;
    case DType::kInt64:
    case DType::kUInt8:
      FAIL() << Name(tensor.dtype);
  }
  device_.CopyFromHost(tensor.data, bytes.data(), tensor.bytes());
}

std::vector<float> Workbench::Read(const Tensor& tensor) {
  std::vector<char> bytes(static_cast<std::size_t>(tensor.bytes()));
  device_.CopyToHost(bytes.data(), tensor.data, tensor.bytes());
  std::vector<float> values(static_cast<std::size_t>(tensor.count()));
  switch (tensor.dtype) {
    case DType::kFloat32:
      Decode<float>(bytes, values, [](float value) { return value; });
      break;
    case DType::kBFloat16:
      Decode<BFloat16>(bytes, values, [](BFloat16 value) { return static_cast<float>(value); });
      break;
    case DType::kFloat16:
      Decode<Float16>(bytes, values, [](Float16 value) { return static_cast<float>(value); });
      break;
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
      Decode<std::uint8_t>(bytes, values, [&](std::uint8_t code) { return DecodeFloat8(code, tensor.dtype); });
      break;
    case DType::kInt32:
      Decode<std::int32_t>(bytes, values, [](std::int32_t value) { return static_cast<float>(value); });
      break;
    case DType::kUInt16:
      Decode<std::uint16_t>(bytes, values, [](std::uint16_t value) { return static_cast<float>(value); });
      break;
    case DType::kInt64:
    case DType::kUInt8:
      ADD_FAILURE() << Name(tensor.dtype);
  }
  return values;
}

std::unique_ptr<Device> CpuForTest(int threads) { return MakeDevice({.kind = "cpu", .threads = threads}); }

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sum;
}

double RelativeDifference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) {
    return std::numeric_limits<double>::infinity();
  }
  double difference = 0;
  double magnitude = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] && std::isinf(b[i])) {
      continue;
    }
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      return std::numeric_limits<double>::infinity();
    }
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    magnitude = std::max(magnitude, std::abs(static_cast<double>(b[i])));
  }
  return difference / magnitude;
}

void ExpectGradient(Workbench& bench, const GradientCheck& check) {
  const std::vector<float> gradient = bench.Read(check.gradient);
  const std::vector<float> original = bench.Read(check.variable);
  ASSERT_EQ(gradient.size(), original.size());
  for (std::size_t i = 0; i < original.size(); i += check.stride) {
    std::vector<float> moved = original;
    moved[i] = original[i] + check.step;
    const double up = moved[i];
    bench.Write(check.variable, moved);
    const double above = check.loss();
    moved[i] = original[i] - check.step;
    const double down = moved[i];
    bench.Write(check.variable, moved);
    const double below = check.loss();
    const double expected = (above - below) / (up - down);
    EXPECT_NEAR(gradient[i], expected, check.tolerance * (1 + std::abs(expected))) << "element " << i;
  }
  bench.Write(check.variable, original);
}

}  // namespace trireme
