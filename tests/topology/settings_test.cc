#include "topology/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/fixtures.h"

namespace trireme {
namespace {

using test::MessageOf;
using testing::HasSubstr;

TEST(Settings, KeysAreFlatAndTyped) {
  const Settings file = Settings::FromText(
      "name = \"x\"\n[a.b]\ncount = 3\non = true\nlist = [1, 2.5]\nwords = [\"p\"]\n[[c]]\nd = 1\n[[c]]\nd = 2\n",
      "x.toml");
  EXPECT_EQ(file.Text("name"), "x");
  EXPECT_EQ(file.Count("a.b.count"), 3);
  EXPECT_TRUE(file.Flag("a.b.on", false));
  EXPECT_EQ(file.Numbers("a.b.list"), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(file.Texts("a.b.words"), std::vector<std::string>{"p"});
  EXPECT_EQ(file.Entries("c"), 2);
  EXPECT_EQ(file.Number("c[1].d"), 2);
  EXPECT_TRUE(file.HasTable("a.b"));
  EXPECT_FALSE(file.HasTable("a.bc"));
  EXPECT_EQ(file.Number("absent", 7), 7);
}

TEST(Settings, AValueOfAnotherTypeIsRefusedWithItsLine) {
  const Settings file = Settings::FromText("a = 1\nb = \"two\"\nc = 2.5\nd = inf\n", "x.toml");
  EXPECT_EQ(MessageOf([&] { file.Number("b"); }), "x.toml, line 2: 'b' must be a number");
  EXPECT_EQ(MessageOf([&] { file.Text("a"); }), "x.toml, line 1: 'a' must be a text in quotes");
  EXPECT_THAT(MessageOf([&] { file.Count("c"); }), HasSubstr("must be a whole number"));
  EXPECT_THAT(MessageOf([&] { file.Number("d"); }), HasSubstr("must be finite"));
  EXPECT_EQ(MessageOf([&] { file.Number("e"); }), "x.toml lacks 'e', a number");
}

TEST(Settings, HostileTextEndsInAnErrorNotInAnAbort) {
  const std::string deep = "a = " + std::string(2000, '[') + std::string(2000, ']') + "\n";
  const std::string texts[] = {"\n.name = 1\n",    "= 1\n",      "a.\n",          "[a]\n[a]\n",
                               "a = \"\x01\"\n",   "a..b = 1\n", "[[a]]\n[a.]\n", "a = 99999999999999999999\n",
                               "a = 1\na.b = 2\n", deep};
  for (const std::string& text : texts) {
    EXPECT_NE(MessageOf([&] { Settings::FromText(text, "x.toml"); }), "") << text.substr(0, 20);
  }
}

// Trees are freed by recursion: 40,000 parts overflowed the stack.
TEST(Settings, DeepKeysAndBracketsAreRefused) {
  const auto refusal = [](const std::string& text) { return MessageOf([&] { Settings::FromText(text, "x.toml"); }); };
  const auto repeated = [](int times, const std::string& part) {
    std::string all;
    for (int i = 0; i < times; ++i) {
      all += part;
    }
    return all;
  };
  const std::string parts = "x.toml, line 2: a key has more than 16 parts";
  EXPECT_EQ(refusal("a = \"\"\"..\"\"\"\n" + repeated(40'000, "a.") + "a = 1\n"), parts);
  EXPECT_EQ(refusal("\n[" + repeated(40'000, "a . ") + "a]\n"), parts);
  EXPECT_EQ(refusal("\nx = {" + repeated(40'000, "'a'.\"b\".") + "a = 1}\n"), parts);
  const std::string brackets = "x.toml, line 2: brackets are nested more than 16 deep";
  EXPECT_EQ(refusal("\nx = " + repeated(40'000, "[") + "\n"), brackets);
  EXPECT_EQ(refusal("\nx = " + repeated(40'000, "{a = ") + "\n"), brackets);
  EXPECT_EQ(refusal(repeated(15, "a.") + "a = 1\n"), "");
  const std::string dots(50, '.');
  EXPECT_EQ(refusal("a = \"" + dots + "\\\"" + dots + "\" # " + dots + "\nb = '" + dots + "'\nc = '''\n" + dots +
                    "'''''\nd = [" + repeated(50, "0.5, ") + "]\n"),
            "");
}

}  // namespace
}  // namespace trireme
