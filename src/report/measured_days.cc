#include "report/measured_days.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/count_text.h"
#include "base/csv.h"
#include "base/error.h"
#include "base/text_file.h"
#include "report/run_record.h"

namespace trireme {
namespace {

constexpr std::int64_t kLargestTable = 16 << 20;

std::vector<DaysCurve> OfTable(const std::string& path, double tokens, const std::string& name) {
  return ParseDaysPoints(ReadTextFile(path, kLargestTable, "measured points"), path, tokens, name);
}

double NumberOfText(const std::string& text) {
  double value = 0;
  const std::string digits = WithoutUnit(text);
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc() && stop == digits.data() + digits.size() && std::isfinite(value) ? value : 0;
}

}  // namespace

std::vector<DaysCurve> ParseDaysPoints(const std::string& csv, const std::string& origin, double tokens,
                                       const std::string& otherwise) {
  const std::vector<std::vector<std::string>> records = ParseCsv(csv, origin);
  Require(!records.empty(), "{}: it has no line of names", origin);
  const std::vector<std::string>& names = records.front();
  const auto column = [&](std::initializer_list<const char*> wanted) {
    for (const char* const name : wanted) {
      const auto found = std::find(names.begin(), names.end(), name);
      if (found != names.end()) {
        return static_cast<std::size_t>(found - names.begin());
      }
    }
    return names.size();
  };
  const std::size_t devices = column({"devices", "GPUs", "gpus"});
  std::size_t days = column({"days"});
  double scale = 1;
  for (std::size_t i = 0; i < names.size() && days == names.size(); ++i) {
    const double of = names[i].starts_with("days/") ? NumberOfText(names[i].substr(5)) : 0;
    days = of > 0 ? i : days;
    scale = of > 0 ? tokens / of : scale;
  }
  Require(devices < names.size() && days < names.size(),
          "{}: measured points need the columns 'devices' (or GPUs) and 'days' (or days/100B); it has {}", origin,
          fmt::join(names, ", "));
  const std::size_t name = column({"name", "system"});
  const std::size_t about = column({"case", "about"});
  std::vector<DaysCurve> curves;
  for (std::size_t i = 1; i < records.size(); ++i) {
    const auto field = [&](std::size_t at) { return at < records[i].size() ? records[i][at] : std::string(); };
    const double count = NumberOfText(field(devices));
    const double took = NumberOfText(field(days));
    if (count <= 0 || took <= 0) {
      continue;
    }
    const std::string own = field(name).empty() ? otherwise : field(name);
    auto curve = std::find_if(curves.begin(), curves.end(), [&](const DaysCurve& one) { return one.name == own; });
    if (curve == curves.end()) {
      curve = curves.insert(curves.end(), {.name = own, .points = {}});
    }
    curve->points.push_back({.devices = count, .days = took * scale, .about = field(about)});
  }
  return curves;
}

std::vector<DaysCurve> ReadMeasuredDays(const std::string& path, double tokens) {
  std::error_code status;
  const std::filesystem::path place = std::filesystem::path(path).lexically_normal();
  const std::string name = place.has_filename() ? place.stem().string() : place.parent_path().filename().string();
  if (path.ends_with(".csv")) {
    return OfTable(path, tokens, name);
  }
  if (std::filesystem::is_regular_file(path + "/table.csv", status)) {
    return OfTable(path + "/table.csv", tokens, name);
  }
  DaysCurve curve{.name = name, .points = {}};
  for (const std::string& folder : RunFoldersOf(path)) {
    const RunRecord run = ReadRun(folder);
    const double rate = MedianOf(run.metrics.tokens_per_second);
    if (std::isfinite(rate) && rate > 0 && run.ranks > 0) {
      curve.points.push_back({.devices = static_cast<double>(run.ranks),
                              .days = tokens / rate / 86'400,
                              .about = run.name + (run.layout.empty() ? "" : ": " + run.layout)});
    }
  }
  Require(!curve.points.empty(), "'{}' holds no run with measured steps", path);
  std::stable_sort(curve.points.begin(), curve.points.end(),
                   [](const DaysPoint& a, const DaysPoint& b) { return a.devices < b.devices; });
  return {curve};
}

}  // namespace trireme
