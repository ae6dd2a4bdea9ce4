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

std::string RefusalOf(const std::string& source) {
  return MessageOf([&] { TemplateOf(source).Render(ToJson({{"user", "x"}}), true); });
}

std::string TextOf(const std::string& source) { return TemplateOf(source).Render(ToJson({{"user", "x"}}), true).text; }

std::string Repeated(int times, const std::string& text) {
  std::string all;
  for (int i = 0; i < times; ++i) {
    all += text;
  }
  return all;
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
  EXPECT_THAT(RefusalOf("\n{% macro f(x) %}{% endmacro %}"), HasSubstr("line 2: the statement 'macro' is not covered"));
  EXPECT_THAT(RefusalOf("{{ messages | groupby('role') }}"), HasSubstr("filter 'groupby'"));
  EXPECT_THAT(RefusalOf("{{ 1 is sameas(1) }}"), HasSubstr("'is sameas'"));
  EXPECT_THAT(RefusalOf("{{ 'x'.zfill(3) }}"), HasSubstr("method 'zfill'"));
  EXPECT_THAT(RefusalOf("{{ cycler(1) }}"), HasSubstr("calls 'cycler'"));
  EXPECT_THAT(RefusalOf("{{ messages.__class__.__mro__ }}"), HasSubstr("undefined"));
  EXPECT_THAT(RefusalOf("{% if x %}"), HasSubstr("'endif' is missing"));
  EXPECT_THAT(RefusalOf("{% endfor %}"), HasSubstr("closes nothing"));
  EXPECT_THAT(RefusalOf("{{ 'x }}"), HasSubstr("a string has no end"));
  EXPECT_THAT(RefusalOf("{{ (1 }}"), HasSubstr("line 1"));
  EXPECT_THAT(RefusalOf("{{ raise_exception('roles') }}"), HasSubstr("refuses the conversation: roles"));
}

TEST(ChatTemplate, HostileTemplatesEnd) {
  EXPECT_THAT(RefusalOf("{% for a in range(99999) %}{{ 1" + Repeated(200, "+1") + " }}{% endfor %}"),
              HasSubstr("a million steps"));
  EXPECT_THAT(RefusalOf("\n{{ 'x' * 99999999999 }}"), HasSubstr("line 2: needs more than 256 MiB"));
  EXPECT_THAT(RefusalOf("{{ " + std::string(500, '(') + "1" + std::string(500, ')') + " }}"), HasSubstr("64 deep"));
  EXPECT_THAT(RefusalOf("{{ range(99999999) }}"), HasSubstr("range()"));
  EXPECT_THAT(RefusalOf("{% set a = 'x' * 99999 %}{% for i in range(999) %}{{ a }}{% endfor %}"),
              HasSubstr("writes more than 64 MiB"));
}

TEST(ChatTemplate, SlicesAndRangesOfTheLargestNumbersAreComputed) {
  EXPECT_EQ(TextOf("{{ [1, 2, 3][::999999999999999999] }}"), "[1]");
  const auto with = [](const char* source, std::int64_t step) {
    return TemplateOf(source).Render({{{"role", "user"}, {"step", step}}}, true).text;
  };
  EXPECT_EQ(with("{{ [1, 2, 3][1::messages[0].step] }}", INT64_MAX), "[2]");
  EXPECT_EQ(with("{{ 'abc'[::messages[0].step] }}", INT64_MIN), "c");
  EXPECT_EQ(with("{{ [1, 2, 3][messages[0].step::2] }}", INT64_MIN), "[1, 3]");
  EXPECT_EQ(with("{{ range(5, 1, messages[0].step) }}", INT64_MIN), "[5]");
  EXPECT_EQ(with("{{ range(messages[0].step, 1, -1) }}", INT64_MIN), "[]");
  EXPECT_THAT(MessageOf([&] { with("{{ range(messages[0].step, 5) }}", INT64_MIN); }),
              HasSubstr("line 1: gives range() limits"));
}

TEST(ChatTemplate, ChainsAreBoundedAsNestingIs) {
  for (const char* part : {"~a", ".a", "|string", " and a", "[0]", " or a", "+a", "*a", "()", " is defined"}) {
    EXPECT_THAT(RefusalOf("{% set a = 'x' %}\n{{ a" + Repeated(20000, part) + " }}"), HasSubstr("line 2")) << part;
  }
  EXPECT_EQ(TextOf("{{ 'a'" + Repeated(200, " ~ 'b'") + " }}"), "a" + std::string(200, 'b'));
}

TEST(ChatTemplate, ARenderingHasABudgetOfBytes) {
  const auto refused = HasSubstr("line 2: needs more than 256 MiB for its texts and lists");
  EXPECT_THAT(RefusalOf("{% set s = 'x' %}\n" + Repeated(29, "{% set s = s + s %}")), refused);
  EXPECT_THAT(RefusalOf("{% set s = [1] %}\n" + Repeated(24, "{% set s = s + s %}")), refused);
  EXPECT_THAT(RefusalOf("{% set s = {'a': 1} %}\n" + Repeated(24, "{% set s = {'a': s, 'b': s} %}")), refused);
  EXPECT_THAT(RefusalOf("\n{{ 'x\\ny'|indent(300000000) }}"), refused);
  EXPECT_THAT(RefusalOf("\n{{ [[1]]|tojson(indent=300000000) }}"), refused);
  EXPECT_THAT(RefusalOf("\n{{ ('x' * 1000)|replace('x', 'y' * 600000) }}"), refused);
  EXPECT_THAT(RefusalOf("\n{{ ('x' * 1000)|list|join('y' * 600000) }}"), refused);
  EXPECT_THAT(RefusalOf("\n{% for i in range(9999) %}{% if 'x' * 99999 == 'y' %}{% endif %}{% endfor %}"), refused);
  EXPECT_THAT(RefusalOf("{% set n = namespace() %}\n" + Repeated(100, "{% set n.a = [n.a] %}")),
              HasSubstr("line 2: makes a value that is nested more than 64 deep"));
  EXPECT_EQ(TextOf("{{ 'x\\ny'|indent(-3) }}{{ [1]|tojson(indent=-1) }}"), "x\ny[\n1\n]");
}

TEST(ChatTemplate, NumbersBeyondWholeOnesAreRefused) {
  EXPECT_THAT(RefusalOf("\n{{ (10.5 ** 400)|int }}"), HasSubstr("line 2: takes 'int' of a number beyond 2^53"));
  EXPECT_EQ(TextOf("{{ (2.5)|int }} {{ (-2.5)|int }} {{ 'x'|int }} {{ (10.5 ** 400 - 10.5 ** 400)|int }}"), "2 -2 0 0");
  EXPECT_THAT(RefusalOf("{{ 1" + std::string(400, '0') + ".0 }}"), HasSubstr("line 1: a number has more than 300"));
  EXPECT_THAT(RefusalOf("{{ 'x'|indent(2.5) }}"), HasSubstr("line 1: gives 'indent' a width of number"));
}

// Once each word was cut off by copying the rest.
TEST(ChatTemplate, StripsTheNamedCharacters) {
  EXPECT_EQ(TextOf("{{ '-=ab=-'.strip('-=') }}"), "ab");
  EXPECT_EQ(TextOf("{{ 'é·éab'.lstrip('é·, and more than a short string holds') }}"), "b");
  EXPECT_EQ(TextOf("{{ 'ab   '.rstrip(' ') }}"), "ab");
}

TEST(ChatTemplate, SplitsLongTextsInOnePass) {
  const std::string words = Repeated(300000, "ab ");
  const ChatTemplate tested = TemplateOf("{{ messages[0].content.split()|length }}");
  EXPECT_EQ(tested.Render(ToJson({{"user", words}}), false).text, "300000");
  EXPECT_EQ(TextOf("{{ ' a  b c '.split(none, 1) }}{{ 'a,b,c'.split(',', 1) }}{{ ''.split() }}{{ ''.split(',') }}"),
            "['a', 'b c']['a', 'b,c'][]['']");
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
