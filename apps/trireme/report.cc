#include <fmt/chrono.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <memory>

#include "apps/trireme/command_line.h"
#include "apps/trireme/commands.h"
#include "base/durable_file.h"
#include "base/units.h"
#include "measure/machine.h"
#include "report/report_page.h"

namespace trireme {
namespace {

struct ReportCommand {
  std::vector<std::string> paths;
  std::string output;
  std::int64_t points = 1'000'000;

  int Run() const {
    ReportInput input = ReadReportInput(paths);
    input.program = "trireme " + ProgramVersion();
    input.made = fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(std::time(nullptr)));
    input.most_points = points;
    const std::string html = ReportHtml(input);
    ReplaceFile(output, html);
    std::printf("wrote %s: %zu run%s, %s; open it in a browser\n", output.c_str(), input.runs.size(),
                input.runs.size() == 1 ? "" : "s", HumanBytes(static_cast<std::int64_t>(html.size())).c_str());
    return 0;
  }
};

constexpr const char* kReportExamples = R"(
Examples:
  trireme report runs/quickstart
  trireme report runs/ --output report.html
  trireme report runs/a runs/b bench/topology plan.json --output compared.html

Exit codes: 0 written; 2 a path cannot be used, or the program was built without its pages.)";

}  // namespace

void AddReportCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<ReportCommand>();
  command->output = "report.html";
  CLI::App* report =
      app.add_subcommand("report", "Write runs, measured studies and plans as one HTML file with curves and timelines");
  report
      ->add_option(
          "paths", command->paths,
          "Folders of runs, or one that holds them; folders or tables (.csv) of bench; plans and timelines (.json)")
      ->required();
  report->add_option("--output", command->output, "The HTML file (report.html)");
  report->add_option("--points", command->points, "Most steps that the file holds; runs are thinned beyond (1000000)")
      ->check(AboveZero());
  report->footer(kReportExamples);
  report->callback([command, &exit_code] { exit_code = command->Run(); });
}

}  // namespace trireme
