#include "device/best_seconds.h"

#include <gtest/gtest.h>

#include <array>

#include "device/paced/paced_device.h"
#include "device/paced_prices_stub.h"

namespace trireme {
namespace {

TEST(BestSeconds, IsTheFastestRoundWithoutTheFirstCall) {
  PacedDevice device(std::make_shared<RoundPrices>());
  // The first call, then two calls per round.
  constexpr std::array kSeconds = {0.5, 4.0, 6.0, 3.0, 1.0, 8.0, 2.0};
  std::size_t calls = 0;
  EXPECT_EQ(BestSeconds(device, {.least = 3, .calls = 2}, [&] { device.Pause(kSeconds.at(calls++)); }), 2);
  EXPECT_EQ(calls, kSeconds.size());
}

TEST(BestSeconds, ShortWorkIsRepeatedForItsTime) {
  PacedDevice device(std::make_shared<RoundPrices>());
  int calls = 0;
  EXPECT_EQ(BestSeconds(device, {.least = 2, .seconds = 4},
                        [&] {
                          device.Pause(1);
                          ++calls;
                        }),
            1);
  EXPECT_EQ(calls, 5);
}

}  // namespace
}  // namespace trireme
