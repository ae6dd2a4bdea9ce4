#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/markup_text.h"
#include "planner/validation/scores.h"
#include "planner/validation/validate.h"

namespace trireme {
namespace {

using Members = std::vector<const Prediction*>;
using Keys = std::map<std::string, Members>;

constexpr double kFullBar = 60;  // percent at which a bar ends
constexpr double kBarWidth = 120;
constexpr std::size_t kWorst = 25;

// Predicted over measured, less one.
double ResidualOf(const Prediction& one) { return one.seconds / *one.run->measured_seconds() - 1; }

double Quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

// Powers of two keep their order as texts.
std::string Doubling(double value, const char* unit) {
  const int power = value >= 1 ? static_cast<int>(std::floor(std::log2(value))) : 0;
  return fmt::format("{:>6} to {} {}", std::int64_t{1} << power, (std::int64_t{2} << power) - 1, unit);
}

std::string AxesOf(const Prediction& one) {
  const MeasuredRun& run = *one.run;
  std::string axes;
  const auto add = [&](const char* name, double degree) {
    axes += degree > 1 ? (axes.empty() ? "" : " + ") + std::string(name) : "";
  };
  add("tensor", run.tensor.value_or(1));
  add("context", run.context.value_or(1));
  add("pipeline", run.pipeline.value_or(1));
  add("data", run.data.value_or(1));
  return (axes.empty() ? "one device" : axes) + (one.across ? ", several nodes" : ", one node");
}

struct Grouping {
  const char* title;
  std::string (*key)(const Prediction&);
};

const Grouping kGroupings[] = {
    {"Source", [](const Prediction& one) { return SourceOf(*one.run); }},
    {"Layout", AxesOf},
    {"Tensor degree",
     [](const Prediction& one) { return fmt::format("{:>4}", static_cast<int>(one.run->tensor.value_or(1))); }},
    {"Stages",
     [](const Prediction& one) { return fmt::format("{:>4}", static_cast<int>(one.run->pipeline.value_or(1))); }},
    {"ZeRO",
     [](const Prediction& one) {
       return one.run->zero ? fmt::format("stage {}", static_cast<int>(*one.run->zero)) : std::string("not told");
     }},
    {"Model size", [](const Prediction& one) { return Doubling(one.parameters / 1e9, "billion parameters"); }},
    {"Devices", [](const Prediction& one) { return Doubling(one.devices, "devices"); }},
    {"Format", [](const Prediction& one) { return one.dtype; }},
    {"Release", [](const Prediction& one) { return one.run->date.empty() ? "not told" : one.run->date; }},
    {"Program", [](const Prediction& one) { return one.stack; }},
    {"Machine", [](const Prediction& one) { return one.cluster; }},
};

std::string Bar(double percent) {
  const double size = std::min(std::abs(percent), kFullBar) / kFullBar * kBarWidth / 2;
  const double from = percent < 0 ? kBarWidth / 2 - size : kBarWidth / 2;
  return fmt::format(
      "<svg width='{0}' height='12'><line x1='{1}' x2='{1}' y1='0' y2='12' stroke='#888'/><rect x='{2:.1f}' y='2' "
      "width='{3:.1f}' height='8' fill='{4}'/></svg>",
      kBarWidth, kBarWidth / 2, from, size, percent < 0 ? "#d62728" : "#1f77b4");
}

std::string RowOf(const std::string& name, const Members& members) {
  std::vector<double> residuals;
  std::vector<double> errors;
  int within = 0;
  for (const Prediction* one : members) {
    const double measured = *one->run->measured_seconds();
    residuals.push_back(100 * ResidualOf(*one));
    errors.push_back(std::abs(residuals.back()));
    within += measured >= one->low && measured <= one->high ? 1 : 0;
  }
  std::sort(residuals.begin(), residuals.end());
  const double median = Median(residuals);
  return fmt::format(
      "<tr><td>{}</td><td>{}</td><td>{:.1f}</td><td>{:+.1f}</td><td>{}</td><td>{:+.1f} to {:+.1f}</td><td>{:.0f}</td>"
      "</tr>\n",
      MarkupText(name), members.size(), Mean(errors), median, Bar(median), Quantile(residuals, 0.1),
      Quantile(residuals, 0.9), 100.0 * within / static_cast<double>(members.size()));
}

std::string TableOf(const Grouping& grouping, const Members& members) {
  Keys keys;
  for (const Prediction* one : members) {
    keys[grouping.key(*one)].push_back(one);
  }
  std::string text = fmt::format(
      "<h2>{}</h2>\n<table><tr><th></th><th>runs</th><th>mean error %</th><th>median %</th><th></th><th>10 to 90 %</th>"
      "<th>within their interval %</th></tr>\n",
      grouping.title);
  for (const auto& [key, own] : keys) {
    text += RowOf(key, own);
  }
  return text + "</table>\n";
}

std::string WorstOf(Members members) {
  const auto size = [](const Prediction* one) { return std::abs(std::log1p(ResidualOf(*one))); };
  std::stable_sort(members.begin(), members.end(),
                   [&](const Prediction* a, const Prediction* b) { return size(a) > size(b); });
  members.resize(std::min(members.size(), kWorst));
  std::string text =
      "<h2>Runs that miss most</h2>\n<table><tr><th>run</th><th>source</th><th>layout</th><th>devices</th>"
      "<th>measured s</th><th>predicted s</th><th>%</th><th></th></tr>\n";
  for (const Prediction* one : members) {
    text += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.4g}</td><td>{:.4g}</td><td>{:+.1f}</td><td>{}</td></"
        "tr>\n",
        MarkupText(one->run->id), MarkupText(SourceOf(*one->run)), MarkupText(one->layout), one->devices,
        *one->run->measured_seconds(), one->seconds, 100 * ResidualOf(*one), one->sick ? "sick" : "");
  }
  return text + "</table>\n";
}

}  // namespace

std::string ToResiduals(const Validation& validation) {
  Members members;
  for (const Prediction& one : validation.predictions) {
    if (one.run->clean() && one.run->measured_seconds() && !one.fitted_on) {
      members.push_back(&one);
    }
  }
  std::string page =
      "<!doctype html>\n<html lang='en'><meta charset='utf-8'><title>Residuals</title>\n<style>body{font:14px "
      "sans-serif;margin:2em}table{border-collapse:collapse}td,th{padding:2px 8px;text-align:right;border-bottom:1px "
      "solid #ddd}td:first-child{text-align:left;white-space:pre}</style>\n<h1>Residuals</h1>\n<p>Predicted over "
      "measured seconds per step, less one: below 0 the prediction is too fast. Clean runs that no fit learned "
      "from.</p>\n";
  if (members.empty()) {
    return page + "<p>No run has seconds.</p>\n</html>\n";
  }
  for (const Grouping& grouping : kGroupings) {
    page += TableOf(grouping, members);
  }
  return page + WorstOf(members) + "</html>\n";
}

}  // namespace trireme
