#include "planner/queries/run_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "cost/formulas.h"
#include "message_of.h"
#include "planner/fixtures.h"

namespace trireme {
namespace {

using test::MessageOf;
using testing::HasSubstr;
using testing::Not;

RunRow Row(const std::string& label, int data, double seconds) {
  RunRow row{.label = label, .config = test::PlannedRun(test::SmallGpt(), {.data = data}, 64), .seconds = seconds};
  row.memory = 12.5e9;
  row.hardware = 50;
  row.mfu = 0.4;
  return row;
}

std::string Cell(const RunTable& table, std::size_t row, const std::string& column) {
  const auto at = std::find(table.columns.begin(), table.columns.end(), column);
  return at == table.columns.end() ? "no such column"
                                   : table.rows[row][static_cast<std::size_t>(at - table.columns.begin())];
}

TEST(RunTable, EveryFigureFollowsFromTheSeconds) {
  const RunTable table =
      TableOf({Row("one", 2, 2), Row("two", 4, 1)}, {.tokens = 1e9, .price = 2.5, .relative_to = "two"});
  const ModelConfig model = test::SmallGpt();
  EXPECT_EQ(Cell(table, 0, "GPUs"), "2");
  EXPECT_EQ(Cell(table, 0, "TFLOPs 6N"), fmt::format("{:.4g}", EstimatedFlops(model, 64, false) / 2 / 2 / 1e12));
  EXPECT_EQ(Cell(table, 0, "TFLOPs Meg"), fmt::format("{:.4g}", MegatronFlops(model, 64, false) / 2 / 2 / 1e12));
  EXPECT_EQ(Cell(table, 0, "MFU %"), "40.0");
  EXPECT_EQ(Cell(table, 0, "memory GB"), "12.5");
  // 64 x 256 tokens a second on four devices: 1e9 tokens take 61,035 s.
  EXPECT_EQ(Cell(table, 1, "days/1B"), "0.7064");
  EXPECT_EQ(Cell(table, 1, "GPU-h/1B"), "67.82");
  EXPECT_EQ(Cell(table, 1, "cost"), "169.5");
  EXPECT_EQ(Cell(table, 0, "scaling %"), "100.0");
  EXPECT_EQ(Cell(table, 1, "scaling %"), "100.0");
}

TEST(RunTable, ScalingRefersToTheChosenRow) {
  const std::vector<RunRow> rows = {Row("one", 1, 2), Row("two", 2, 2), Row("four", 4, 1)};
  EXPECT_EQ(Cell(TableOf(rows), 1, "scaling %"), "50.0");
  EXPECT_EQ(Cell(TableOf(rows, {.relative_to = "2"}), 0, "scaling %"), "200.0");
  EXPECT_EQ(Cell(TableOf(rows, {.relative_to = "four"}), 2, "scaling %"), "100.0");
  EXPECT_THAT(MessageOf([&] { TableOf(rows, {.relative_to = "5"}); }), HasSubstr("1 to 3"));
  RunRow failed = Row("none", 1, 0);
  failed.failure = "out of memory";
  EXPECT_THAT(MessageOf([&] { TableOf({failed, rows[0]}, {.relative_to = "1"}); }), HasSubstr("no seconds"));
  EXPECT_EQ(Cell(TableOf({failed, rows[0]}), 0, "scaling %"), "");
  EXPECT_EQ(Cell(TableOf({failed, rows[0]}), 0, "remark"), "out of memory");
}

TEST(RunTable, LinesFitATerminal) {
  RunRow measured = Row("layout.tensor=2 layout.pipeline=4 layout.data=8 layout.recompute='full'", 8, 123.456);
  measured.spread = 0.021;
  measured.predicted = 131.7;
  measured.shares_cores = true;
  RunRow failed = Row("layout.tensor=4 layout.pipeline=4 layout.data=8 layout.recompute='none'", 8, 0);
  failed.failure = "refused: " + std::string("words ") + std::string(200, 'x') + std::string(" and words") +
                   " and more of them until no line of a terminal holds what there is to be said about this case";
  const std::string text = ToText(TableOf({measured, failed}, {.tokens = 300e9, .price = 1.8}));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.size() <= 120 || line.find("xxx") != std::string::npos) << line;
  }
  EXPECT_THAT(text, HasSubstr("1: layout.tensor=2"));
  EXPECT_THAT(text, HasSubstr("100.0*"));
  EXPECT_THAT(text, HasSubstr("more ranks than cores"));
  EXPECT_THAT(text, HasSubstr("not shown, for want of room: tokens/s"));
  EXPECT_THAT(text, HasSubstr("/300B"));
}

TEST(RunTable, ShortTablesHaveNoLegendAndEmptyColumnsAreLeftOut) {
  const std::string text = ToText(TableOf({Row("mbs=1", 1, 2)}));
  EXPECT_THAT(text, HasSubstr("mbs=1"));
  EXPECT_THAT(text, Not(HasSubstr("spread")));
  EXPECT_THAT(text, Not(HasSubstr("cost")));
}

TEST(RunTable, ProgramsGetNumbers) {
  const auto rows = ToJsonValue(TableOf({Row("mbs=1", 1, 2)}));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["case"], "mbs=1");
  EXPECT_EQ(rows[0]["sec/it"], 2);
  EXPECT_TRUE(rows[0]["predicted"].is_null());
  EXPECT_EQ(ToCsv(TableOf({Row("a,b", 1, 2)})).substr(0, 15), "case,nodes,GPUs");
  EXPECT_THAT(ToCsv(TableOf({Row("a,b", 1, 2)})), HasSubstr("\n\"a,b\",1,1,"));
  EXPECT_THAT(ToMarkdown(TableOf({Row("a|b", 1, 2)})), HasSubstr("| a\\|b | 1 | 1 |"));
}

}  // namespace
}  // namespace trireme
