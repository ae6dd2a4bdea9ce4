#include "run/case_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message_of.h"

namespace trireme {
namespace {

using test::MessageOf;
using testing::HasSubstr;

std::vector<std::string> Labels(const std::vector<CaseSettings>& cases) {
  std::vector<std::string> labels;
  for (const CaseSettings& one : cases) {
    labels.push_back(LabelOf(one));
  }
  return labels;
}

TEST(CaseList, IsEveryCombinationThenTheListedCases) {
  const CaseList list = ParseCaseList(R"(about = "a study"
[set]
cluster = "dgx-h100"
max-size = true
[grid]
nodes = [1, 2]
recompute = ["none", "full"]
[[case]]
label = "mine"
layout = "tp=4 pp=2"
)",
                                      "a.toml");
  EXPECT_EQ(list.about, "a study");
  ASSERT_NE(ValueOf(list.common, "max-size"), nullptr);
  EXPECT_EQ(*ValueOf(list.common, "max-size"), "true");
  EXPECT_THAT(Labels(list.cases), testing::ElementsAre("nodes=1 recompute=none", "nodes=1 recompute=full",
                                                       "nodes=2 recompute=none", "nodes=2 recompute=full", "mine"));
}

TEST(CaseList, CsvNamesSettingsInItsFirstLine) {
  const CaseList list =
      ParseCaseList("nodes,layout,label\n# a remark\n4,\"tp=2, pp=4\",\n,tp=8,\"the \"\"best\"\"\"\n", "a.csv");
  EXPECT_THAT(Labels(list.cases), testing::ElementsAre("nodes=4 layout=tp=2, pp=4", "the \"best\""));
}

TEST(CaseList, SaysWhatIsWrong) {
  EXPECT_THAT(MessageOf([] { ParseCaseList("cases = 3", "a.toml"); }), HasSubstr("did you mean 'case'"));
  EXPECT_THAT(MessageOf([] { ParseCaseList("about = 'x'", "a.toml"); }), HasSubstr("nothing to plan"));
  EXPECT_THAT(MessageOf([] { ParseCaseList("[grid]\nnodes = 3", "a.toml"); }), HasSubstr("must be a list"));
  EXPECT_THAT(MessageOf([] { ParseCaseList("[set]\nnodes = [3]", "a.toml"); }), HasSubstr("nodes must be a text"));
  EXPECT_THAT(MessageOf([] { ParseCaseList("[set]\nnodes =", "a.toml"); }), HasSubstr("a.toml line 2"));
  EXPECT_THAT(MessageOf([] { ParseCaseList("a,b\n1,2,3\n", "a.csv"); }), HasSubstr("3 fields below 2 names"));
  EXPECT_THAT(MessageOf([] { ParseCaseList("a,b\n\"1,2\n", "a.csv"); }), HasSubstr("not closed"));
}

TEST(Grid, ValuesEndAtBarsWhereThereAreAny) {
  EXPECT_THAT(Labels(ParseGrid("nodes=1,2; layout=tp=2, pp=4|tp=4 pp=2")),
              testing::ElementsAre("nodes=1 layout=tp=2, pp=4", "nodes=1 layout=tp=4 pp=2", "nodes=2 layout=tp=2, pp=4",
                                   "nodes=2 layout=tp=4 pp=2"));
  EXPECT_THAT(MessageOf([] { ParseGrid("nodes"); }), HasSubstr("must be NAME=VALUE"));
  EXPECT_THAT(MessageOf([] { ParseGrid(" ; "); }), HasSubstr("names nothing to vary"));
}

}  // namespace
}  // namespace trireme
