#include "base/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trireme {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

TEST(JsonText, ComesBackAsTheSameValue) {
  const json value = {{"b", {1, -2.5, nullptr, true}}, {"a", "two\n\"words\""}};
  EXPECT_EQ(JsonText(value), R"({"a":"two\n\"words\"","b":[1,-2.5,null,true]})");
  EXPECT_EQ(ParseJson(JsonText(value)), value);
  EXPECT_EQ(ParseJson(JsonText(value, {.indent = 2})), value);
}

TEST(JsonText, KeepsTheOrderOfAnOrderedValue) {
  EXPECT_EQ(JsonText(ordered_json{{"b", 1}, {"a", 2}}), R"({"b":1,"a":2})");
  EXPECT_EQ(JsonText(ordered_json{{"b", 1}}, {.indent = 1}), "{\n \"b\": 1\n}");
}

TEST(JsonText, EscapesWhatIsNotAsciiWhenTold) {
  const json value = "caf\xc3\xa9";
  EXPECT_EQ(JsonText(value), "\"caf\xc3\xa9\"");
  EXPECT_EQ(JsonText(value, {.ascii = true}), R"("caf\u00e9")");
}

TEST(JsonText, ReplacesOrRefusesWhatIsNotUtf8) {
  const json value = "a\xff";
  EXPECT_EQ(JsonText(value), "\"a\xef\xbf\xbd\"");
  EXPECT_THROW(JsonText(value, {.bad_utf8 = BadUtf8::kRefuse}), json::exception);
}

TEST(JsonText, ThatIsTornThrowsOrIsDiscarded) {
  for (const char* torn : {"", "{", "{\"a\":1}x", "nul"}) {
    EXPECT_THROW(ParseJson(torn), json::exception) << torn;
    EXPECT_TRUE(ParseJsonOrDiscard(torn).is_discarded()) << torn;
  }
  EXPECT_EQ(ParseJsonOrDiscard("[1]"), json::array({1}));
}

}  // namespace
}  // namespace trireme
