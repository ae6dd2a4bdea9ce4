#include "planner/queries/days_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message_of.h"

namespace trireme {
namespace {

using test::MessageOf;
using testing::HasSubstr;

DaysPlot SomePlot() {
  return {.title = "7B & others",
          .tokens = 100e9,
          .predicted = {{.name = "one",
                         .points = {{.devices = 8, .days = 200, .about = "dp8"}, {.devices = 64, .days = 30}}},
                        {.name = "<two>", .points = {{.devices = 16, .days = 57}}}},
          .measured = {{.name = "one", .points = {{.devices = 8, .days = 190}}}}};
}

TEST(DaysPlot, DrawsEveryPointWithItsFigures) {
  const std::string svg = DaysSvg(SomePlot());
  EXPECT_THAT(svg, HasSubstr("7B &amp; others"));
  EXPECT_THAT(svg, HasSubstr("<title>one: 8 devices, 200 days, dp8</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>&lt;two&gt;: 16 devices, 57 days</title>"));
  EXPECT_THAT(svg, HasSubstr("one, measured"));
  EXPECT_THAT(svg, HasSubstr("days for 100B tokens"));
  const std::string page = DaysPage(SomePlot());
  EXPECT_THAT(page, HasSubstr("<!DOCTYPE html>"));
  EXPECT_THAT(page, HasSubstr(svg));
  EXPECT_THAT(page, HasSubstr("<td>measured</td><td class='n'>8</td><td class='n'>190</td><td class='n'>36,480</td>"));
  EXPECT_THAT(MessageOf([] { DaysSvg({}); }), HasSubstr("no point to draw"));
}

TEST(DaysPlot, LongNamesAreWholeOverSeveralLines) {
  DaysPlot plot = SomePlot();
  plot.predicted[0].name = "megatron-ds-2022 of the first cluster, tp=4 pp=12";
  plot.predicted[1].name = "averyveryverylongnamewithoutanyspaceä";
  const std::string svg = DaysSvg(plot);
  EXPECT_THAT(svg, HasSubstr(">megatron-ds-2022 of the</text>"));
  EXPECT_THAT(svg, HasSubstr(">first cluster, tp=4 pp=12</text>"));
  EXPECT_THAT(svg, HasSubstr(">averyveryverylongnamewithout</text>"));
  EXPECT_THAT(svg, HasSubstr(">anyspaceä</text>"));
  // A picture grows where its legend is longer than the axis.
  for (int i = 0; i < 40; ++i) {
    plot.predicted.push_back({.name = "system", .points = {{.devices = 16, .days = 57}}});
  }
  EXPECT_THAT(svg, HasSubstr("height='520'"));
  EXPECT_THAT(DaysSvg(plot), testing::Not(HasSubstr("height='520'")));
}

// More devices are further right, more days higher up.
TEST(DaysPlot, AxesGrowAsTheyShould) {
  const auto place = [](const std::string& svg, const std::string& title) {
    const std::size_t end = svg.find("><title>" + title);
    const std::size_t start = svg.rfind("<circle cx='", end);
    double x = 0;
    double y = 0;
    EXPECT_EQ(std::sscanf(svg.c_str() + start, "<circle cx='%lf' cy='%lf'", &x, &y), 2);
    return std::pair{x, y};
  };
  const std::string svg = DaysSvg(SomePlot());
  const auto [few_x, few_y] = place(svg, "one: 8 devices");
  const auto [many_x, many_y] = place(svg, "one: 64 devices");
  EXPECT_GT(many_x, few_x);
  EXPECT_GT(many_y, few_y) << "y grows downwards";
}

}  // namespace
}  // namespace trireme
