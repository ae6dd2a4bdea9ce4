#include "base/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "message_of.h"

namespace trireme {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using test::MessageOf;
using testing::HasSubstr;

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
    EXPECT_THROW(ParseJson(torn), Error) << torn;
    EXPECT_TRUE(ParseJsonOrDiscard(torn).is_discarded()) << torn;
  }
  EXPECT_EQ(ParseJsonOrDiscard("[1]"), json::array({1}));
}

TEST(JsonText, DocumentsHaveBounds) {
  EXPECT_EQ(ParseJson("[{\"a\": 1, \"a\": [2]}, null, true, -1.5, \"x\"]"),
            nlohmann::json::parse("[{\"a\": [2]}, null, true, -1.5, \"x\"]"));
  EXPECT_THAT(MessageOf([] { ParseJson(std::string(1'000'000, '[')); }), HasSubstr("nested deeper than 64"));
  EXPECT_TRUE(ParseJsonOrDiscard(std::string(100'000, '[') + std::string(100'000, ']')).is_discarded());
  EXPECT_EQ(ParseJson(std::string(64, '[') + std::string(64, ']')).size(), 1U);
  EXPECT_THAT(MessageOf([] { ParseJson("[1, 2, 3]", {.values = 3}); }), HasSubstr("more than 3 JSON values"));
  EXPECT_THAT(MessageOf([] { ParseJson("{\"a\": 1, \"a\": 1}", {.unique_keys = true}); }), HasSubstr("stands twice"));
  EXPECT_THAT(MessageOf([] { ParseJson("{\"a\": }"); }), HasSubstr("parse error"));
  EXPECT_THAT(MessageOf([] { ParseJson("1 2"); }), HasSubstr("parse error"));
  EXPECT_THAT(MessageOf([] { ParseJson("\"\xff\""); }), HasSubstr("UTF-8"));
  EXPECT_TRUE(ParseJsonOrDiscard("").is_discarded());
}

// Once the end of each object looked through all members before it: this took hours.
TEST(JsonText, ManySmallObjectsAreReadInOnePass) {
  std::string text = "{";
  for (int i = 0; i < 400'000; ++i) {
    text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":{}";
  }
  EXPECT_EQ(ParseJson(text + "}", {.unique_keys = true}).size(), 400'000U);
}

}  // namespace
}  // namespace trireme
