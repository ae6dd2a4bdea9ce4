#include "report/bench_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/markup_text.h"

namespace trireme {
namespace {

constexpr double kLeft = 70;
constexpr double kPanelHeight = 220;
constexpr double kPanelTop = 50;
constexpr double kBetween = 46;
constexpr double kLabels = 150;  // below the panels
constexpr double kCaseWidth = 46;
constexpr std::size_t kLongest = 44;  // of a label, in characters; longer ones give way to the layout's

// One panel: values of cases over their places, from 0 to the greatest.
struct Panel {
  double top = 0;
  double most = 1;
  std::string name;

  double Y(double value) const { return top + kPanelHeight * (1 - value / most); }
  std::string Frame(double width) const {
    std::string svg = fmt::format(
        "<rect x='{}' y='{:.0f}' width='{:.0f}' height='{}' fill='none' stroke='#444'/>\n"
        "<text x='{}' y='{:.0f}' font-weight='bold'>{}</text>\n",
        kLeft, top, width, kPanelHeight, kLeft, top - 8, name);
    for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      svg += fmt::format(
          "<path d='M{} {:.1f}h{:.0f}' stroke='#ddd'/><text x='{}' y='{:.1f}' text-anchor='end'>{:.3g}</text>\n", kLeft,
          Y(share * most), width, kLeft - 6, Y(share * most) + 4, share * most);
    }
    return svg;
  }
};

std::string ShortLayout(const ParallelLayout& layout) {
  return fmt::format("tp{} pp{} dp{} {}", layout.tensor, layout.pipeline, layout.data, layout.schedule);
}

double PlaceOf(std::size_t index) { return kLeft + kCaseWidth * (static_cast<double>(index) + 0.5); }

}  // namespace

std::string PlotOf(const std::vector<BenchRow>& rows, const std::string& title) {
  Panel seconds{.top = kPanelTop, .most = 0, .name = "seconds per step: measured (dots), predicted (crosses)"};
  Panel rates{
      .top = kPanelTop + kPanelHeight + kBetween, .most = 0, .name = "TFLOP/s of a device, recomputation included"};
  const auto ran = [](const BenchRow& row) { return row.failure.empty() && row.seconds > 0; };
  for (const BenchRow& row : rows) {
    if (ran(row)) {
      seconds.most = std::max({seconds.most, row.seconds, row.predicted});
      rates.most = std::max(rates.most, row.hardware);
    }
  }
  const bool any = seconds.most > 0;
  rates.most = rates.most > 0 ? rates.most : 1;
  const double width = kCaseWidth * static_cast<double>(std::max<std::size_t>(rows.size(), 8));
  const double bottom = rates.top + kPanelHeight;
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{:.0f}' height='{:.0f}' font-family='sans-serif' "
      "font-size='11'>\n"
      "<rect width='100%' height='100%' fill='white'/>\n<text x='{}' y='20'>{}</text>\n",
      kLeft + width + 30, bottom + kLabels, kLeft, MarkupText(title));
  if (!any) {
    return svg + fmt::format("<text x='{}' y='60'>no case has run</text></svg>\n", kLeft);
  }
  svg += seconds.Frame(width) + rates.Frame(width);
  std::string line;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const BenchRow& row = rows[i];
    const double x = PlaceOf(i);
    const std::string label = row.label.size() > kLongest ? ShortLayout(row.config.layout) : row.label;
    svg += fmt::format("<text transform='translate({:.1f} {:.1f}) rotate(-50)' text-anchor='end'>{}</text>\n", x + 4,
                       bottom + 14, MarkupText(label));
    if (!ran(row)) {
      svg += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='middle' fill='#d62728'>&#215;</text>\n", x,
                         seconds.Y(0) - 4);
      continue;
    }
    svg += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='4' fill='#1f77b4'/>\n", x, seconds.Y(row.seconds));
    if (row.predicted > 0) {
      svg += fmt::format("<path d='M{0:.1f} {1:.1f}h10m-5 -5v10' stroke='#d62728' stroke-width='1.5'/>\n", x - 5,
                         seconds.Y(row.predicted));
    }
    const double y = rates.Y(row.hardware);
    line += fmt::format("{}{:.1f} {:.1f}", line.empty() ? "M" : "L", x, y);
    svg += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='3' fill='#2ca02c'/>\n", x, y);
  }
  return svg + fmt::format("<path d='{}' fill='none' stroke='#2ca02c'/>\n</svg>\n", line);
}

}  // namespace trireme
