#include "run/step_list.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace trireme {
namespace {

TEST(StepList, HasTheStepsAndRangesThatAreNamed) {
  const StepList steps("1200-1202, 3000,7 - 7");
  for (const std::int64_t step : {1200, 1201, 1202, 3000, 7}) {
    EXPECT_TRUE(steps.Has(step)) << step;
  }
  for (const std::int64_t step : {1, 1199, 1203, 2999, 3001}) {
    EXPECT_FALSE(steps.Has(step)) << step;
  }
  EXPECT_FALSE(StepList("").Has(1));
  EXPECT_FALSE(StepList(" ").Has(1));
}

TEST(StepList, RefusesWhatIsNoStep) {
  for (const char* text : {"a", "0", "-3", "5-4", "1,,2", "1-2-3", "99999999999999999999", "1 2"}) {
    EXPECT_THROW(StepList{text}, Error) << text;
  }
}

}  // namespace
}  // namespace trireme
