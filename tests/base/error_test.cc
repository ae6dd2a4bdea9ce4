#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Error, FailThrowsTheFormattedMessage) {
  try {
    Fail("{} heads on {} ranks", 7, "two");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "7 heads on two ranks");
  }
}

TEST(Error, RequireThrowsOnlyWhenTheConditionIsFalse) {
  EXPECT_NO_THROW(Require(true, "never {}", 1));
  EXPECT_THROW(Require(false, "always {}", 1), Error);
}

TEST(Error, MessagesMayHoldBraces) { EXPECT_THROW(Require(false, "{{}} and {}", "{not a format}"), Error); }

TEST(EditDistance, CountsInsertionsDeletionsAndSubstitutions) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("abc", ""), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("tensor", "tensor"), 0);
}

TEST(NearestMatch, NamesTheNearestCandidate) {
  const std::vector<std::string> keys = {"layout.tensor", "layout.data", "model.layers"};
  EXPECT_EQ(NearestMatch("layout.tensr", keys), " (did you mean 'layout.tensor'?)");
  EXPECT_EQ(NearestMatch("model.layer", keys), " (did you mean 'model.layers'?)");
}

TEST(NearestMatch, IsSilentWhenNothingIsNear) {
  EXPECT_EQ(NearestMatch("xyz", std::vector<std::string>{"layout.sequence_parallel"}), "");
  EXPECT_EQ(NearestMatch("xyz", std::vector<std::string>{}), "");
}

}  // namespace
}  // namespace trireme
