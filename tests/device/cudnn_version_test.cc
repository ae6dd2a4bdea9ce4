#include "device/cudnn_version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(CudnnVersion, IsReadAsTheLibraryWritesIt) {
  EXPECT_EQ(CudnnVersionText(91400), "9.14.0");
  EXPECT_EQ(CudnnVersionText(90501), "9.5.1");
  EXPECT_EQ(CudnnVersionText(8905), "8.9.5");
}

TEST(CudnnVersion, AnOlderOneDoesNoAttentionAndIsNamed) {
  for (const std::int64_t version : {8905, 90000, 91399}) {
    EXPECT_FALSE(CudnnDoesAttention(version)) << version;
    EXPECT_THAT(CudnnNote(version), testing::HasSubstr("is older than 9.14: attention runs in plain kernels"));
  }
  EXPECT_THAT(CudnnNote(90501), testing::StartsWith("cuDNN 9.5.1 "));
}

TEST(CudnnVersion, ANewerOneNeedsNoNote) {
  for (const std::int64_t version : {91400, 91900, 100000}) {
    EXPECT_TRUE(CudnnDoesAttention(version)) << version;
    EXPECT_EQ(CudnnNote(version), "");
  }
}

TEST(CudnnVersion, AProgramWithoutItHasNothingToSay) {
  EXPECT_FALSE(CudnnDoesAttention(0));
  EXPECT_EQ(CudnnNote(0), "");
}

}  // namespace
}  // namespace trireme
