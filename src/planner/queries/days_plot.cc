#include "planner/queries/days_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/count_text.h"
#include "base/error.h"
#include "base/markup_text.h"

namespace trireme {
namespace {

constexpr double kWidth = 860;
constexpr double kHeight = 520;
constexpr double kLeft = 78;
constexpr double kRight = 230;  // the legend
constexpr double kTop = 48;
constexpr double kBottom = 56;

const char* ColourOf(std::size_t index) {
  static constexpr const char* kColours[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e",
                                             "#17becf", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22"};
  return kColours[index % std::size(kColours)];
}

// A logarithmic axis over [low, high], drawn from `from` to `to`.
struct LogAxis {
  double low = 1;
  double high = 10;
  double from = 0;
  double to = 1;

  double At(double value) const { return from + (to - from) * std::log(value / low) / std::log(high / low); }
  // 1, 2 and 5 times powers of ten; every power of two where `twos`.
  std::vector<double> Marks(bool twos) const {
    std::vector<double> marks;
    if (twos) {
      for (double mark = 1; mark <= high * 1.0001; mark *= 2) {
        if (mark >= low * 0.9999) {
          marks.push_back(mark);
        }
      }
      return marks;
    }
    for (double ten = std::pow(10, std::floor(std::log10(low))); ten <= high; ten *= 10) {
      for (const double times : {1.0, 2.0, 5.0}) {
        if (times * ten >= low * 0.9999 && times * ten <= high * 1.0001) {
          marks.push_back(times * ten);
        }
      }
    }
    return marks;
  }
};

std::string NumberText(double value) {
  return value >= 10'000 ? GroupedDigits(fmt::format("{:.0f}", value)) : fmt::format("{:.4g}", value);
}

bool BeginsLetter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

// `text` in lines of at most `width` letters, broken at spaces where there are any.
std::vector<std::string> LinesOf(const std::string& text, std::ptrdiff_t width) {
  std::vector<std::string> lines;
  std::size_t from = 0;
  std::size_t space = std::string::npos;  // the last one of the line
  std::ptrdiff_t letters = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    letters += BeginsLetter(text[at]) ? 1 : 0;
    if (letters > width) {
      const bool broken = space != std::string::npos;
      const std::size_t end = broken ? space : at;
      lines.push_back(text.substr(from, end - from));
      from = broken ? space + 1 : at;
      space = std::string::npos;
      letters = std::count_if(text.begin() + static_cast<std::ptrdiff_t>(from),
                              text.begin() + static_cast<std::ptrdiff_t>(at) + 1, BeginsLetter);
    }
    space = text[at] == ' ' && at > from ? at : space;
  }
  lines.push_back(text.substr(from));
  return lines;
}

template <typename Use>
void ForEachPoint(const DaysPlot& plot, const Use& use) {
  for (const std::vector<DaysCurve>* curves : {&plot.predicted, &plot.measured}) {
    for (const DaysCurve& curve : *curves) {
      for (const DaysPoint& point : curve.points) {
        use(point);
      }
    }
  }
}

class Picture {
 public:
  explicit Picture(const DaysPlot& plot) : plot_(plot) {
    constexpr double kMost = std::numeric_limits<double>::max();
    double least_devices = kMost;
    double most_devices = 0;
    double least_days = kMost;
    double most_days = 0;
    ForEachPoint(plot, [&](const DaysPoint& point) {
      least_devices = std::min(least_devices, point.devices);
      most_devices = std::max(most_devices, point.devices);
      least_days = std::min(least_days, point.days);
      most_days = std::max(most_days, point.days);
    });
    Require(most_devices > 0, "there is no point to draw: no case has days");
    x_ = {.low = least_devices / 1.25, .high = most_devices * 1.25, .from = kLeft, .to = kWidth - kRight};
    y_ = {.low = least_days / 1.5, .high = most_days * 1.5, .from = kHeight - kBottom, .to = kTop};
  }

  std::string Svg() const {
    std::string drawn = Grid();
    double legend = kTop + 10;
    std::size_t colour = 0;
    for (const DaysCurve& curve : plot_.predicted) {
      drawn += Predicted(curve, ColourOf(colour), legend);
      ++colour;
    }
    for (const DaysCurve& curve : plot_.measured) {
      drawn += Measured(curve, ColourFor(curve, colour), legend);
    }
    drawn += fmt::format("<text x='{:.0f}' y='{:.0f}' fill='#666' font-size='11'>dotted: perfect scaling</text>\n",
                         kWidth - kRight + 14, legend + 4);
    return fmt::format(
               "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
               "font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n"
               "<text x='{2}' y='26' font-size='15' font-weight='bold'>{3}</text>\n",
               kWidth, std::max(kHeight, legend + 16), kLeft, MarkupText(plot_.title)) +
           drawn + "</svg>\n";
  }

 private:
  // Measured points of a system have the colour of its curve.
  const char* ColourFor(const DaysCurve& curve, std::size_t& next) const {
    for (std::size_t i = 0; i < plot_.predicted.size(); ++i) {
      if (plot_.predicted[i].name == curve.name) {
        return ColourOf(i);
      }
    }
    return ColourOf(next++);
  }

  std::string Grid() const {
    std::string svg =
        fmt::format("<rect x='{:.0f}' y='{:.0f}' width='{:.0f}' height='{:.0f}' fill='none' stroke='#444'/>\n", kLeft,
                    kTop, x_.to - x_.from, y_.from - y_.to);
    const bool twos = x_.Marks(true).size() >= 2;
    for (const double mark : x_.Marks(twos)) {
      svg += fmt::format(
          "<path d='M{0:.1f} {1:.1f}V{2:.1f}' stroke='#e4e4e4'/><text x='{0:.1f}' y='{3:.1f}' "
          "text-anchor='middle'>{4}</text>\n",
          x_.At(mark), y_.from, y_.to, y_.from + 18, NumberText(mark));
    }
    for (const double mark : y_.Marks(false)) {
      svg += fmt::format(
          "<path d='M{0:.1f} {1:.1f}H{2:.1f}' stroke='#e4e4e4'/><text x='{3:.1f}' y='{4:.1f}' "
          "text-anchor='end'>{5}</text>\n",
          x_.from, y_.At(mark), x_.to, x_.from - 7, y_.At(mark) + 4, NumberText(mark));
    }
    return svg + fmt::format(
                     "<text x='{:.0f}' y='{:.0f}' text-anchor='middle'>devices</text>\n"
                     "<text transform='translate(18 {:.0f}) rotate(-90)' text-anchor='middle'>days for {} "
                     "tokens</text>\n",
                     (x_.from + x_.to) / 2, kHeight - 14, (y_.from + y_.to) / 2, TokensText());
  }

  std::string TokensText() const {
    return plot_.tokens >= 1e12  ? fmt::format("{:.4g}T", plot_.tokens / 1e12)
           : plot_.tokens >= 1e9 ? fmt::format("{:.4g}B", plot_.tokens / 1e9)
                                 : NumberText(plot_.tokens);
  }

  std::string PointTitle(const DaysCurve& curve, const DaysPoint& point) const {
    return MarkupText(fmt::format("{}: {} devices, {} days{}{}", curve.name, NumberText(point.devices),
                                  NumberText(point.days), point.about.empty() ? "" : ", ", point.about));
  }

  // Moves `legend` below its name.
  std::string Predicted(const DaysCurve& curve, const char* colour, double& legend) const {
    if (curve.points.empty()) {
      return "";
    }
    std::string line;
    std::string dots;
    for (const DaysPoint& point : curve.points) {
      const double x = x_.At(point.devices);
      const double y = y_.At(point.days);
      line += fmt::format("{}{:.1f} {:.1f}", line.empty() ? "M" : "L", x, y);
      dots += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='3.5' fill='{}'><title>{}</title></circle>\n", x, y,
                          colour, PointTitle(curve, point));
    }
    const DaysPoint& first = curve.points.front();
    const DaysPoint& last = curve.points.back();
    const double ideal = std::max(first.days * first.devices / last.devices, y_.low);
    const double until = first.days * first.devices / ideal;
    std::string svg = fmt::format("<path d='M{:.1f} {:.1f}L{:.1f} {:.1f}' stroke='{}' stroke-dasharray='1 4'/>\n",
                                  x_.At(first.devices), y_.At(first.days), x_.At(until), y_.At(ideal), colour);
    svg += fmt::format("<path d='{}' fill='none' stroke='{}' stroke-width='2'/>\n", line, colour);
    const double name = legend;
    return svg + dots + LegendText(curve.name, legend) +
           fmt::format("<path d='M{:.0f} {:.1f}h20' stroke='{}' stroke-width='2'/>\n", kWidth - kRight + 14, name - 4,
                       colour);
  }

  std::string Measured(const DaysCurve& curve, const char* colour, double& legend) const {
    std::string svg;
    for (const DaysPoint& point : curve.points) {
      svg += fmt::format(
          "<path d='M{0:.1f} {1:.1f}l10 10m0 -10l-10 10' stroke='{2}' stroke-width='2.5'><title>{3}</title></path>\n",
          x_.At(point.devices) - 5, y_.At(point.days) - 5, colour, PointTitle(curve, point));
    }
    if (svg.empty()) {
      return "";
    }
    const double name = legend;
    return svg + LegendText(curve.name + ", measured", legend) +
           fmt::format("<path d='M{:.0f} {:.1f}l8 8m0 -8l-8 8' stroke='{}' stroke-width='2.5'/>\n",
                       kWidth - kRight + 20, name - 8, colour);
  }

  // The whole name, over several lines where it is long; moves `legend` below it.
  static std::string LegendText(const std::string& name, double& legend) {
    constexpr std::ptrdiff_t kLetters = 28;
    std::string svg;
    for (const std::string& line : LinesOf(name, kLetters)) {
      svg += fmt::format("<text x='{:.0f}' y='{:.1f}'>{}</text>\n", kWidth - kRight + 40, legend, MarkupText(line));
      legend += 15;
    }
    legend += 3;
    return svg;
  }

  const DaysPlot& plot_;
  LogAxis x_;
  LogAxis y_;
};

std::string PointRows(const std::vector<DaysCurve>& curves, const char* kind) {
  std::string html;
  for (const DaysCurve& curve : curves) {
    for (const DaysPoint& point : curve.points) {
      html += fmt::format(
          "<tr><td>{}</td><td>{}</td><td class='n'>{}</td><td class='n'>{}</td><td class='n'>{}</td>"
          "<td>{}</td></tr>\n",
          MarkupText(curve.name), kind, NumberText(point.devices), NumberText(point.days),
          NumberText(point.days * point.devices * 24), MarkupText(point.about));
    }
  }
  return html;
}

}  // namespace

std::string DaysSvg(const DaysPlot& plot) { return Picture(plot).Svg(); }

std::string DaysPage(const DaysPlot& plot) {
  return fmt::format(
             "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><meta name='viewport' "
             "content='width=device-width'>\n<title>{0}</title>\n<style>\n"
             "body {{ font-family: sans-serif; margin: 1.5em auto; max-width: 900px; padding: 0 1em; color: #222 }}\n"
             "svg {{ width: 100%; height: auto }}\n"
             "table {{ border-collapse: collapse; font-size: 14px; width: 100% }}\n"
             "th, td {{ border-bottom: 1px solid #ddd; padding: 4px 8px; text-align: left }}\n"
             ".n {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }}\n"
             "</style></head><body>\n",
             MarkupText(plot.title)) +
         DaysSvg(plot) +
         "<table><thead><tr><th>system</th><th></th><th class='n'>devices</th><th class='n'>days</th>"
         "<th class='n'>device-hours</th><th>run</th></tr></thead><tbody>\n" +
         PointRows(plot.predicted, "predicted") + PointRows(plot.measured, "measured") +
         "</tbody></table>\n</body></html>\n";
}

}  // namespace trireme
