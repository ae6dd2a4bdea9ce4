#include "base/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message_of.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Csv, ReadsQuotesAndLineBreaksWithinThem) {
  const auto records = ParseCsv("a,\"b, \"\"c\"\"\nd\",\r\n\ne,f,g\n", "x");
  ASSERT_EQ(records.size(), 2U);
  EXPECT_THAT(records[0], ElementsAre("a", "b, \"c\"\nd", ""));
  EXPECT_THAT(records[1], ElementsAre("e", "f", "g"));
}

TEST(Csv, AMissingQuoteIsNamedByItsLine) {
  EXPECT_THAT(test::MessageOf([] { ParseCsv("id,layers\na,\"no end\nb,c", "x"); }), HasSubstr("x, line 2: a quoted"));
}

}  // namespace
}  // namespace trireme
