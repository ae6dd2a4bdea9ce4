#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "device/device.h"

namespace trireme {
namespace {

TEST(CudaAbsent, SaysHowToBuildItAndAutoTakesTheCpu) {
  EXPECT_EQ(CudaDeviceCount(), 0);
  try {
    MakeDevice({.kind = "cuda"});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("TRIREME_CUDA"));
  }
  EXPECT_TRUE(MakeDevice({.kind = "auto"})->is_host());
}

}  // namespace
}  // namespace trireme
