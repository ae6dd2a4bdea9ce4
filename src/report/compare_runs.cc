#include "report/compare_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/units.h"
#include "report/report_page.h"
#include "report/run_record.h"

namespace trireme {
namespace {

// Half the distance of the quartiles over the root of the count: how far the median of so many values may be off.
double NoiseOfMedian(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.size() < 4) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  const double quartiles = values[values.size() * 3 / 4] - values[values.size() / 4];
  const double median = values[values.size() / 2];
  return median > 0 ? 1.5 * quartiles / median / std::sqrt(static_cast<double>(values.size())) : 0;
}

struct Quantity {
  std::string what;
  std::string unit;
};

Difference Judge(const Quantity& of, double before, double after, double noise, double least) {
  Difference difference{.what = of.what, .unit = of.unit, .before = before, .after = after, .noise = noise};
  if (std::isfinite(before) != std::isfinite(after)) {
    difference.direction = std::isfinite(before) ? Direction::kWorse : Direction::kBetter;
    return difference;
  }
  difference.change = before != 0 && std::isfinite(before) ? after / before - 1 : 0;
  if (std::abs(difference.change) > std::max(noise, least)) {
    difference.direction = difference.change > 0 ? Direction::kWorse : Direction::kBetter;
  }
  return difference;
}

std::vector<double> WithoutPreparing(const std::vector<double>& values) {
  return {values.begin() + (values.size() > 4 ? 2 : 0), values.end()};
}

// Fewer have no quartiles to judge their noise by.
constexpr std::size_t kLeastLosses = 4;

// Losses of the last tenth of the steps that both have.
void CompareLosses(const MetricColumns& before, const MetricColumns& after, double least,
                   std::vector<Difference>& differences) {
  const std::size_t common = std::min(before.loss.size(), after.loss.size());
  const std::size_t first = common - std::min(common, std::max(kLeastLosses, common / 10));
  std::vector<double> one(before.loss.begin() + static_cast<std::ptrdiff_t>(first),
                          before.loss.begin() + static_cast<std::ptrdiff_t>(common));
  std::vector<double> other(after.loss.begin() + static_cast<std::ptrdiff_t>(first),
                            after.loss.begin() + static_cast<std::ptrdiff_t>(common));
  // A median leaves out what is not finite: one such loss makes a run worse than a run without any.
  const auto median = [](const std::vector<double>& losses, const std::vector<double>& others) {
    const auto finite = [](double loss) { return std::isfinite(loss); };
    const bool alike =
        std::all_of(losses.begin(), losses.end(), finite) || !std::all_of(others.begin(), others.end(), finite);
    return alike ? MedianOf(losses) : std::nan("");
  };
  if (common > 0) {
    differences.push_back(Judge({fmt::format("loss, steps {} to {}", first + 1, common), ""}, median(one, other),
                                median(other, one), std::hypot(NoiseOfMedian(one), NoiseOfMedian(other)), least));
  }
}

// The first key of what runs learn from that differs, so that their losses are not of the same text; "" for none.
std::string OtherData(const RunRecord& one, const RunRecord& other) {
  for (const char* const key : {"data.source", "data.split", "data.answers_only", "model.vocabulary"}) {
    const auto left = one.config.find(key);
    const auto right = other.config.find(key);
    if (left != one.config.end() && right != other.config.end() && left->second != right->second) {
      return key;
    }
  }
  return "";
}

std::vector<Difference> CompareFolders(const std::string& before, const std::string& after, double least) {
  const RunRecord one = ReadRun(before);
  const RunRecord other = ReadRun(after);
  Require(one.steps() > 0 && other.steps() > 0, "'{}' has no steps to compare", one.steps() > 0 ? after : before);
  std::vector<Difference> differences;
  const std::vector<double> first = WithoutPreparing(one.metrics.seconds);
  const std::vector<double> second = WithoutPreparing(other.metrics.seconds);
  differences.push_back(Judge({"seconds per step", "s"}, MedianOf(first), MedianOf(second),
                              std::hypot(NoiseOfMedian(first), NoiseOfMedian(second)), least));
  const auto most = [](const std::vector<double>& values) {
    double largest = 0;
    for (const double value : values) {
      largest = std::isfinite(value) ? std::max(largest, value) : largest;
    }
    return largest;
  };
  differences.push_back(Judge({"memory of the fullest rank", "bytes"}, most(one.metrics.memory_bytes),
                              most(other.metrics.memory_bytes), 0, least));
  const std::size_t judged = differences.size();
  CompareLosses(one.metrics, other.metrics, least, differences);
  if (!one.metrics.validation_loss.empty() && !other.metrics.validation_loss.empty()) {
    differences.push_back(Judge({"validation loss", ""}, one.metrics.validation_loss.back(),
                                other.metrics.validation_loss.back(), 0, least));
  }
  if (const std::string key = OtherData(one, other); !key.empty()) {
    for (std::size_t i = judged; i < differences.size(); ++i) {
      differences[i].direction = Direction::kNotJudged;
      differences[i].remark = fmt::format("not judged: {} differs", key);
    }
  }
  return differences;
}

std::size_t ColumnOf(const ReportTable& table, const std::string& name) {
  const auto found = std::find(table.columns.begin(), table.columns.end(), name);
  Require(found != table.columns.end(), "'{}' has no column '{}': it is no table of `trireme bench`", table.name, name);
  return static_cast<std::size_t>(found - table.columns.begin());
}

double NumberOf(const std::string& text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<Difference> CompareTables(const std::string& before, const std::string& after, double least, bool ratios) {
  const ReportInput input = ReadReportInput({before, after});
  const ReportTable& one = input.tables.at(0);
  const ReportTable& other = input.tables.at(1);
  const auto number = [](const ReportTable& table, const std::vector<std::string>& row, const char* column) {
    return NumberOf(row[ColumnOf(table, column)]);
  };
  std::vector<Difference> differences;
  // Seconds of the base case in each table; 0: none yet.
  double base_before = ratios ? 0 : 1;
  double base_after = base_before;
  double base_noise = 0;
  bool common = false;
  for (const std::vector<std::string>& row : one.rows) {
    const std::string& name = row[ColumnOf(one, "case")];
    const auto found = std::find_if(other.rows.begin(), other.rows.end(),
                                    [&](const auto& candidate) { return candidate[ColumnOf(other, "case")] == name; });
    if (number(one, row, "sec/it") <= 0) {
      continue;
    }
    if (found == other.rows.end()) {
      differences.push_back({.what = name + ": is missing", .direction = Direction::kWorse});
      continue;
    }
    common = true;
    if (number(other, *found, "sec/it") <= 0) {
      differences.push_back(
          {.what = name + ": " + (*found)[ColumnOf(other, "remark")], .direction = Direction::kWorse});
      continue;
    }
    const double noise = std::hypot(number(one, row, "spread %"), number(other, *found, "spread %")) / 100;
    if (base_before == 0) {
      base_before = number(one, row, "sec/it");
      base_after = number(other, *found, "sec/it");
      base_noise = noise;
    } else {
      differences.push_back(Judge({name + (ratios ? ": times the first case" : ": step"), ratios ? "" : "s"},
                                  number(one, row, "sec/it") / base_before,
                                  number(other, *found, "sec/it") / base_after, std::hypot(noise, base_noise), least));
    }
    differences.push_back(
        Judge({name + ": memory", "GB"}, number(one, row, "memory GB"), number(other, *found, "memory GB"), 0, least));
  }
  Require(common, "'{}' and '{}' have no case in common", before, after);
  return differences;
}

}  // namespace

std::vector<Difference> CompareRuns(const std::string& before, const std::string& after, double least, bool ratios) {
  const bool tables = before.ends_with(".csv") && after.ends_with(".csv");
  Require(tables || !ratios, "--ratios is for two tables (.csv) of `trireme bench`, not for '{}' and '{}'", before,
          after);
  return tables ? CompareTables(before, after, least, ratios) : CompareFolders(before, after, least);
}

namespace {

std::string Measured(double value, const std::string& unit) {
  if (unit == "bytes") {
    return HumanBytes(static_cast<std::int64_t>(value));
  }
  return fmt::format("{:.4g}{}{}", value, unit.empty() ? "" : " ", unit);
}

const char* WordOf(Direction direction) {
  switch (direction) {
    case Direction::kWorse:
      return "WORSE";
    case Direction::kBetter:
      return "better";
    case Direction::kSame:
      return "same";
    case Direction::kNotJudged:
      return "";
  }
  return "";
}

}  // namespace

std::string ToText(const std::vector<Difference>& differences) {
  std::size_t width = 0;
  for (const Difference& difference : differences) {
    width = std::max(width, difference.what.size());
  }
  std::string text;
  for (const Difference& difference : differences) {
    const std::string word = difference.remark.empty() ? WordOf(difference.direction) : difference.remark;
    text += fmt::format("{:<{}}  {:>10} -> {:<10} {:+7.1f} %  (noise {:.1f} %)  {}\n", difference.what, width,
                        Measured(difference.before, difference.unit), Measured(difference.after, difference.unit),
                        100 * difference.change, 100 * difference.noise, word);
  }
  return text;
}

std::string SettingsThatDiffer(const std::string& before, const std::string& after) {
  if (before.ends_with(".csv") || after.ends_with(".csv")) {
    return "";
  }
  const RunRecord one = ReadRun(before);
  const RunRecord other = ReadRun(after);
  std::string layout;
  std::string rest;
  for (const auto& [key, value] : one.config) {
    const auto found = other.config.find(key);
    if (found != other.config.end() && found->second != value) {
      (key.starts_with("layout.") ? layout : rest) += fmt::format("  {}: {} -> {}\n", key, value, found->second);
    }
  }
  return layout.empty() && rest.empty() ? "" : "settings that differ\n" + layout + rest;
}

bool AnyWorse(const std::vector<Difference>& differences) {
  return std::any_of(differences.begin(), differences.end(),
                     [](const Difference& difference) { return difference.direction == Direction::kWorse; });
}

}  // namespace trireme
