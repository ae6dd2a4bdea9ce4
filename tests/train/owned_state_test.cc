#include "train/owned_state.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random_normal.h"

namespace trireme {
namespace {

// Around the blocks that values are converted in.
constexpr std::int64_t kCounts[] = {1, 3, 2047, 2048, 2049, 10001};

std::vector<float> Drawn(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(RandomNormal(11, static_cast<std::uint64_t>(i)));
  }
  return values;
}

TEST(OwnedState, ValuesInBFloat16AreTheNearestAndComeBackWidened) {
  const auto device = MakeDevice({.kind = "cpu"});
  for (const std::int64_t count : kCounts) {
    std::vector<BFloat16> memory(static_cast<std::size_t>(count) + 1);
    memory.back().bits = 0x1234;
    const Tensor tensor{memory.data(), DType::kBFloat16, {count}};
    const std::vector<float> values = Drawn(count);
    std::vector<float> staging = values;
    CopyValues(*device, staging, tensor);
    std::vector<float> back(values.size() + 1, 5.0F);
    CopyValues(*device, tensor, back.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(back[i], static_cast<float>(BFloat16(values[i]))) << i << " of " << count;
    }
    EXPECT_EQ(back.back(), 5.0F);
    EXPECT_EQ(memory.back().bits, 0x1234);
  }
}

TEST(OwnedState, ValuesInFloatAreCopied) {
  const auto device = MakeDevice({.kind = "cpu"});
  const std::vector<float> values = Drawn(2049);
  std::vector<float> memory(values.size());
  const Tensor tensor{memory.data(), DType::kFloat32, {2049}};
  std::vector<float> staging = values;
  CopyValues(*device, staging, tensor);
  EXPECT_EQ(memory, values);
  std::vector<float> back(values.size());
  CopyValues(*device, tensor, back.data());
  EXPECT_EQ(back, values);
}

}  // namespace
}  // namespace trireme
