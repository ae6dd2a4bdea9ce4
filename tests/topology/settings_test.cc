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

}  // namespace
}  // namespace trireme
