#include <array>
#include <cmath>
#include <map>

#include "base/error.h"
#include "planner/validation/validate.h"

namespace trireme {
namespace {

constexpr double kSide = 560;    // of the square
constexpr double kMargin = 60;   // around it
constexpr double kLegend = 260;  // to its right
constexpr std::array<const char*, 10> kColours = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e",
                                                  "#8c564b", "#e377c2", "#17becf", "#bcbd22", "#7f7f7f"};

struct PlotScale {
  double low = -1;  // decimal logarithms of seconds
  double high = 3;
  double Along(double seconds) const { return (std::log10(seconds) - low) / (high - low) * kSide; }
};

PlotScale ScaleOf(const Validation& validation) {
  double least = 1e9;
  double most = 1e-9;
  for (const Prediction& one : validation.predictions) {
    if (const auto measured = one.run->measured_seconds()) {
      least = std::min({least, *measured, one.seconds});
      most = std::max({most, *measured, one.seconds});
    }
  }
  return least < most ? PlotScale{.low = std::floor(std::log10(least)), .high = std::ceil(std::log10(most))}
                      : PlotScale{};
}

std::string PlotAxes(const PlotScale& scale) {
  std::string svg =
      fmt::format("<rect x='{0}' y='{0}' width='{1}' height='{1}' fill='none' stroke='#444'/>\n", kMargin, kSide);
  for (double power = scale.low; power <= scale.high; ++power) {
    const double at = scale.Along(std::pow(10, power));
    const double y = kMargin + kSide - at;
    svg += fmt::format(
        "<path d='M{0:.1f} {1:.1f}V{2:.1f}M{3:.1f} {4:.1f}H{5:.1f}' stroke='#ddd'/>\n"
        "<text x='{0:.1f}' y='{6:.1f}' text-anchor='middle'>{8:g}</text>\n"
        "<text x='{7:.1f}' y='{4:.1f}' text-anchor='end'>{8:g}</text>\n",
        kMargin + at, kMargin, kMargin + kSide, kMargin, y, kMargin + kSide, kMargin + kSide + 18, kMargin - 6,
        std::pow(10, power));
  }
  svg += fmt::format("<path d='M{0} {1}L{1} {0}' stroke='#444'/>\n", kMargin, kMargin + kSide);
  svg += fmt::format("<text x='{}' y='{}' text-anchor='middle'>measured seconds per step</text>\n", kMargin + kSide / 2,
                     kMargin + kSide + 42);
  svg += fmt::format("<text transform='translate(16 {}) rotate(-90)' text-anchor='middle'>predicted</text>\n",
                     kMargin + kSide / 2);
  return svg;
}

}  // namespace

std::string ToSvg(const Validation& validation) {
  const PlotScale scale = ScaleOf(validation);
  std::map<std::string, std::string> points;
  std::map<std::string, int> counts;
  for (const Prediction& one : validation.predictions) {
    const auto measured = one.run->measured_seconds();
    if (!measured || !one.run->clean() || one.fitted_on) {
      continue;
    }
    const std::string source = SourceOf(*one.run);
    points[source] += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='2.4'/>\n", kMargin + scale.Along(*measured),
                                  kMargin + kSide - scale.Along(one.seconds));
    ++counts[source];
  }
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{}' height='{}' font-family='sans-serif' font-size='12'>\n"
      "<rect width='100%' height='100%' fill='white'/>\n",
      2 * kMargin + kSide + kLegend, 2 * kMargin + kSide);
  svg += PlotAxes(scale);
  std::size_t colour = 0;
  double y = kMargin + 10;
  for (const auto& [source, circles] : points) {
    const char* fill = kColours[colour++ % kColours.size()];
    svg += fmt::format("<g fill='{}' fill-opacity='0.55'>\n{}", fill, circles);
    svg += fmt::format("<circle cx='{:.0f}' cy='{:.0f}' r='5'/></g>\n", kMargin + kSide + 20, y - 4);
    svg += fmt::format("<text x='{:.0f}' y='{:.0f}'>{} ({})</text>\n", kMargin + kSide + 32, y, source, counts[source]);
    y += 20;
  }
  return svg + "</svg>\n";
}

}  // namespace trireme
