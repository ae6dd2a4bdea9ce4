#include "base/plain_text.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "message_of.h"

namespace trireme {
namespace {

TEST(PlainText, ControlCharactersAreWrittenOut) {
  EXPECT_EQ(PlainText("naïve 東京 👍\n\ta"), "naïve 東京 👍\n\ta");
  EXPECT_EQ(PlainText("\x1b[2J\x1b]0;title\x07\r\b\x7f"), "\\u001b[2J\\u001b]0;title\\u0007\\u000d\\u0008\\u007f");
  EXPECT_EQ(PlainText("\xc2\x9b"
                      "31m"),
            "\\u009b31m");
  EXPECT_EQ(PlainText("\xe2\x80\xae"
                      "abc"),
            "\\u202eabc");
  EXPECT_EQ(PlainText(std::string("a\0b", 3)), "a\\u0000b");
  EXPECT_EQ(PlainLine("a\nb\tc"), "a\\u000ab\\u0009c");
}

TEST(PlainText, BytesThatAreNoUtf8AreWrittenOut) {
  EXPECT_EQ(PlainText("\x9b"
                      "31m\xff"),
            "\\x9b31m\\xff");
  EXPECT_EQ(PlainText("\xc0\x9b"), "\\xc0\\x9b");
  EXPECT_EQ(PlainText("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(PlainText("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(PlainText("a\xe2\x80"), "a\\xe2\\x80");
}

TEST(PlainText, ErrorsAreCleaned) {
  EXPECT_EQ(test::MessageOf([] { Fail("unknown key '{}'", "\x1b[31mred"); }), "unknown key '\\u001b[31mred'");
}

}  // namespace
}  // namespace trireme
