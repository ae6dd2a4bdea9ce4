#include "apps/trireme/plan_cases.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "apps/trireme/command_line.h"
#include "apps/trireme/commands.h"
#include "apps/trireme/plan_validate.h"
#include "base/durable_file.h"
#include "base/error.h"
#include "base/plain_text.h"
#include "planner/queries/days_plot.h"
#include "report/measured_days.h"

namespace trireme {
namespace {

CaseList ReadFile(const std::string& file) {
  if (file.empty()) {
    return {};
  }
  return LoadCaseList(std::filesystem::is_regular_file(file) ? file : NamedPath("", "cases", file, "list of cases"));
}

// The file's cases, those of the grid for each of them, and the listed ones.
std::vector<CaseSettings> AllCases(const CaseList& list, const PlanCases& cases) {
  std::vector<CaseSettings> all = list.cases;
  if (!cases.grid.empty()) {
    const std::vector<CaseSettings> grid = ParseGrid(cases.grid);
    std::vector<CaseSettings> before = std::move(all);
    before.resize(std::max<std::size_t>(before.size(), 1));
    all.clear();
    for (const CaseSettings& one : before) {
      for (const CaseSettings& more : grid) {
        all.push_back(one);
        all.back().insert(all.back().end(), more.begin(), more.end());
      }
    }
  }
  for (const std::string& one : cases.listed) {
    all.push_back(ParseCase(one));
  }
  return all;
}

bool IsPlace(const std::string& name) { return name == "nodes" || name == "gpus"; }

// What tells a curve's cases from those of others.
std::string CurveOf(const CaseSettings& settings, const CaseQuestion& question) {
  CaseSettings own;
  std::copy_if(settings.begin(), settings.end(), std::back_inserter(own),
               [](const auto& setting) { return !IsPlace(setting.first); });
  const bool one = own.size() == 1 && own.front().first != "label";
  const std::string label = one ? own.front().second : LabelOf(own);
  return label.empty() ? question.stack : label;
}

void AddPoint(const std::string& name, const RunRow& row, double tokens, std::vector<DaysCurve>& curves) {
  if (!row.failure.empty() || row.seconds <= 0) {
    return;
  }
  auto curve = std::find_if(curves.begin(), curves.end(), [&](const DaysCurve& one) { return one.name == name; });
  if (curve == curves.end()) {
    curve = curves.insert(curves.end(), {.name = name, .points = {}});
  }
  const double per_step = static_cast<double>(row.config.batch.global * row.config.model.sequence);
  curve->points.push_back({.devices = static_cast<double>(row.config.layout.ranks()),
                           .days = tokens / per_step * row.seconds / 86'400,
                           .about = row.config.layout.ToString()});
}

void WritePlot(const std::string& path, DaysPlot plot) {
  for (DaysCurve& curve : plot.predicted) {
    std::stable_sort(curve.points.begin(), curve.points.end(),
                     [](const DaysPoint& a, const DaysPoint& b) { return a.devices < b.devices; });
  }
  ReplaceFile(path, path.ends_with(".html") ? DaysPage(plot) : DaysSvg(plot));
  std::fprintf(stderr, "wrote %s\n", path.c_str());
}

}  // namespace

void AddCaseOptions(CLI::App& plan, PlanCases& cases) {
  plan.add_option("--cases", cases.file,
                  "A table of predicted runs: a file of cases (.toml or .csv), or the name of one of cases/");
  plan.add_option("--grid", cases.grid,
                  "The same for every combination: \"nodes=4,8; layout=tp=2 pp=4|tp=4 pp=2\"; settings are options of "
                  "this command, model, cluster, stack and words of --fix");
  plan.add_option("--case", cases.listed, "One more case of the table: \"nodes=4; mbs=2\"")->take_all()->expected(1);
  plan.add_option("--format", cases.format, "Of the table: text, markdown, csv or json (text)")
      ->check(CLI::IsMember({"text", "markdown", "csv", "json"}));
  AddTableOptions(plan, cases.table);
  plan.add_option("--plot", cases.plot,
                  "Draw the cases as days against devices, a curve a system: FILE.svg, or FILE.html with the figures");
  plan.add_option("--measured", cases.measured,
                  "With --plot: measured points on top, from a folder of a run or of bench, or a CSV with devices and "
                  "days")
      ->take_all()
      ->expected(1);
}

int RunCases(const PlanCases& cases, const CaseQuestion& base, const std::function<bool(const std::string&)>& given,
             const std::function<RunRow(const CaseQuestion&)>& answer) {
  Require(cases.plot.empty() || cases.plot.ends_with(".svg") || cases.plot.ends_with(".html"),
          "--plot {}: the file's name must end in .svg or .html", cases.plot);
  const CaseList list = ReadFile(cases.file);
  CaseSettings common;
  std::copy_if(list.common.begin(), list.common.end(), std::back_inserter(common),
               [&](const auto& setting) { return !given(setting.first); });
  const CaseQuestion shared = WithSettings(base, common);
  TableOptions options = cases.table;
  options.tokens = shared.options.tokens > 0 ? shared.options.tokens : options.tokens;
  DaysPlot plot{.title = list.about.empty() ? "Days of a training against devices" : list.about,
                .tokens = options.tokens,
                .predicted = {},
                .measured = {}};
  std::vector<RunRow> rows;
  for (const CaseSettings& settings : AllCases(list, cases)) {
    Require(ValueOf(settings, "tokens") == nullptr, "tokens are the whole table's: give --tokens, or [set] tokens");
    const CaseQuestion question = WithSettings(shared, settings);
    RunRow row = answer(question);
    row.label = LabelOf(settings);
    AddPoint(CurveOf(settings, question), row, options.tokens, plot.predicted);
    rows.push_back(std::move(row));
  }
  for (const std::string& path : cases.measured) {
    const std::vector<DaysCurve> curves = ReadMeasuredDays(path, options.tokens);
    plot.measured.insert(plot.measured.end(), curves.begin(), curves.end());
  }
  Print(stdout, Formatted(TableOf(rows, options), cases.format));
  if (!cases.plot.empty()) {
    WritePlot(cases.plot, std::move(plot));
  }
  const bool any = std::any_of(rows.begin(), rows.end(), [](const RunRow& row) { return row.failure.empty(); });
  return any ? 0 : kExitFailed;
}

}  // namespace trireme
