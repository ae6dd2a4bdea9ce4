#include "data/chat/chat_template.h"

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "message_of.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;
using test::MessageOf;
using testing::HasSubstr;

// The first of January 2025, local time: what make_fixture.py says strftime_now is.
std::time_t FirstOfJanuary() {
  std::tm day = {};
  day.tm_year = 125;
  day.tm_mday = 1;
  day.tm_hour = 12;
  day.tm_isdst = -1;
  return std::mktime(&day);
}

const Json& Fixture() {
  static const Json kFixture =
      Json::parse(ReadBytes(std::string(TRIREME_SOURCE_DIR) + "/tests/data/chat/fixture.json"));
  return kFixture;
}

ChatTemplate TemplateOf(const std::string& source) {
  ChatTemplate made(source, {{"bos_token", "<bos>"}, {"eos_token", "<eos>"}}, "test");
  made.set_now(FirstOfJanuary());
  return made;
}

TEST(ChatTemplate, WritesWhatJinjaWrites) {
  int compared = 0;
  for (const Json& expected : Fixture().at("cases")) {
    const auto name = expected.at("template").get<std::string>();
    const auto about = expected.at("conversation").get<std::string>();
    // %e and %d differ by a zero; the fixture's day has none.
    std::string source = Fixture().at("templates").at(name).get<std::string>();
    const std::size_t day = source.find("%d %b %Y");
    source = day == std::string::npos ? source : source.replace(day, 2, "%-d");
    const ChatTemplate tested = TemplateOf(source);
    const Json& messages = Fixture().at("conversations").at(about);
    const bool prompt = expected.at("prompt").get<bool>();
    if (expected.contains("raises")) {
      EXPECT_NE(MessageOf([&] { tested.Render(messages, prompt); }), "") << name << " " << about;
      continue;
    }
    ChatText made;
    ASSERT_EQ(MessageOf([&] { made = tested.Render(messages, prompt); }), "") << name << " " << about;
    EXPECT_EQ(made.text, expected.at("text").get<std::string>()) << name << " " << about;
    std::vector<std::string> generated;
    for (const auto& [begin, end] : made.answers) {
      generated.push_back(made.text.substr(begin, end - begin));
    }
    EXPECT_EQ(generated, expected.at("generated").get<std::vector<std::string>>()) << name << " " << about;
    ++compared;
  }
  EXPECT_GE(compared, 80);
}

TEST(ChatTemplate, AnswersHaveTheirPlace) {
  const std::vector<ChatMessage> talk = {
      {"user", "one"}, {"assistant", "two"}, {"user", "three"}, {"assistant", "four"}};
  for (const char* name : {"turns", "marked"}) {
    const ChatTemplate tested = TemplateOf(Fixture().at("templates").at(name).get<std::string>());
    const ChatText text = tested.RenderAnswers(ToJson(talk));
    ASSERT_EQ(text.answers.size(), 2U);
    const auto [begin, end] = text.answers[1];
    EXPECT_EQ(text.text.substr(begin, end - begin), std::string(name) == "turns" ? "four<|stop|>\n" : "four<eos>");
  }
}

TEST(ChatTemplate, ATemplateThatRewritesTheConversationHasNoAnswers) {
  const ChatTemplate tested = TemplateOf("{{ messages|length }}{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_THAT(MessageOf([&] {
                tested.RenderAnswers(ToJson({{"user", "one"}, {"assistant", "two"}}));
              }),
              HasSubstr("{% generation %}"));
}

TEST(ChatTemplate, WhatIsNotCoveredIsNamed) {
  const auto refusal = [](const std::string& source) {
    return MessageOf([&] { TemplateOf(source).Render(ToJson({{"user", "x"}}), true); });
  };
  EXPECT_THAT(refusal("\n{% macro f(x) %}{% endmacro %}"), HasSubstr("line 2: the statement 'macro' is not covered"));
  EXPECT_THAT(refusal("{{ messages | groupby('role') }}"), HasSubstr("filter 'groupby'"));
  EXPECT_THAT(refusal("{{ 1 is sameas(1) }}"), HasSubstr("'is sameas'"));
  EXPECT_THAT(refusal("{{ 'x'.zfill(3) }}"), HasSubstr("method 'zfill'"));
  EXPECT_THAT(refusal("{{ cycler(1) }}"), HasSubstr("calls 'cycler'"));
  EXPECT_THAT(refusal("{{ messages.__class__.__mro__ }}"), HasSubstr("undefined"));
  EXPECT_THAT(refusal("{% if x %}"), HasSubstr("'endif' is missing"));
  EXPECT_THAT(refusal("{% endfor %}"), HasSubstr("closes nothing"));
  EXPECT_THAT(refusal("{{ 'x }}"), HasSubstr("a string has no end"));
  EXPECT_THAT(refusal("{{ (1 }}"), HasSubstr("line 1"));
  EXPECT_THAT(refusal("{{ raise_exception('roles') }}"), HasSubstr("refuses the conversation: roles"));
}

TEST(ChatTemplate, HostileTemplatesEnd) {
  const auto refusal = [](const std::string& source) {
    return MessageOf([&] { TemplateOf(source).Render(ToJson({{"user", "x"}}), true); });
  };
  std::string sum = "1";
  for (int i = 0; i < 200; ++i) {
    sum += "+1";
  }
  EXPECT_THAT(refusal("{% for a in range(99999) %}{{ " + sum + " }}{% endfor %}"), HasSubstr("a million steps"));
  EXPECT_THAT(refusal("{{ 'x' * 99999999999 }}"), HasSubstr("64 MiB"));
  EXPECT_THAT(refusal("{{ " + std::string(500, '(') + "1" + std::string(500, ')') + " }}"), HasSubstr("64 deep"));
  EXPECT_THAT(refusal("{{ range(99999999) }}"), HasSubstr("range()"));
}

TEST(ChatTemplate, IsFoundWithItsTokenizer) {
  const ScratchDirectory folder;
  WriteBytes(folder / "tokenizer_config.json",
             R"({"eos_token": "</s>", "chat_template": [{"name": "tools", "template": "no"},
                 {"name": "default", "template": "{{ messages[0].content + eos_token }}"}]})");
  EXPECT_EQ(ChatTemplate::Load(folder.path().string()).Render(ToJson({{"user", "hi"}}), false).text, "hi</s>");
  WriteBytes(folder / "chat_template.jinja", "{{ 'file' }}\n");
  EXPECT_EQ(ChatTemplate::Load(folder / "tokenizer.json").Render(ToJson({{"user", "hi"}}), false).text, "file");
  const ScratchDirectory empty;
  EXPECT_THAT(MessageOf([&] { ChatTemplate::Load(empty.path().string()); }), HasSubstr("has no chat template"));
}

}  // namespace
}  // namespace trireme
