#include "apps/trireme/plan_validate.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "apps/trireme/command_line.h"
#include "base/error.h"
#include "base/plain_text.h"
#include "comm/launch_environment.h"
#include "planner/validation/validate.h"
#include "topology/settings.h"

namespace trireme {
namespace {

struct ValidateCommand {
  std::string runs;
  std::string clusters_folder, stacks_folder;
  ValidateOptions options;
  std::string plot;
  std::string residuals;
  bool json = false;
  bool calibrate = false;

  // Nothing where no path was given.
  template <typename Make>
  static void Write(const std::string& path, Make make) {
    if (path.empty()) {
      return;
    }
    std::ofstream file(path, std::ios::binary);
    file << make();
    file.close();
    Require(file.good(), "'{}' cannot be written", path);
  }

  int Run() const {
    const PlannerFiles files =
        LoadPlannerFiles(DataFolder(clusters_folder, "clusters"), DataFolder(stacks_folder, "stacks"));
    const std::vector<MeasuredRun> table = LoadRuns(runs);
    if (calibrate) {
      Print(stdout, CalibrationsText(table, files));
      return 0;
    }
    const Validation validation = Validate(table, files, options);
    Write(plot, [&] { return ToSvg(validation); });
    Write(residuals, [&] { return ToResiduals(validation); });
    Print(stdout, json ? ToJson(validation) : ToText(validation));
    return 0;
  }
};

}  // namespace

std::string DataFolder(const std::string& told, const std::string& name) {
  if (!told.empty()) {
    return told;
  }
  std::error_code status;
  for (const std::string& place : FoldersOf(name)) {
    // A folder of the same name may be the user's own.
    for (const auto& entry : std::filesystem::directory_iterator(place, status)) {
      if (entry.path().extension() == ".toml") {
        return place;
      }
    }
  }
  Fail("no folder '{}' was found; name it with --{}-folder", name, name);
}

std::string NamedPath(const std::string& told, const std::string& kind, const std::string& name, const char* what) {
  const NamedFile file = FindNamedFile(told.empty() ? FoldersOf(kind) : std::vector{told}, name, what);
  SayChoice(file.Choice());
  return file.path;
}

void SayChoice(const std::string& choice) {
  if (!choice.empty() && RankFromEnvironment().value_or(0) == 0) {
    Print(stderr, "trireme: " + choice + "\n");
  }
}

void AddPlanValidateCommand(CLI::App* plan, int& exit_code) {
  auto command = std::make_shared<ValidateCommand>();
  CLI::App* validate = plan->add_subcommand("validate", "Predict measured runs and score the predictions");
  validate->add_option("runs", command->runs, "A CSV table of runs")->required();
  validate->add_flag("--leave-one-out", command->options.leave_one_out,
                     "Predict each table by a calibration on the others");
  validate
      ->add_option("--fit", command->options.fit,
                   "Calibrate on this many runs of each source, the most telling layouts first")
      ->check(NotNegative());
  validate->add_flag("--calibrate", command->calibrate, "Print calibrations for stack files, from all clean runs");
  validate->add_option("--plot", command->plot, "Write predicted against measured seconds as an SVG picture");
  validate->add_option("--residuals", command->residuals,
                       "Write a page (HTML) of what predictions miss by: layout, size, devices, format, release");
  validate->add_flag("--json", command->json, "For programs");
  validate->add_option("--clusters-folder", command->clusters_folder, "Where cluster files lie");
  validate->add_option("--stacks-folder", command->stacks_folder, "Where stack files lie");
  validate->footer("\nExample:\n  trireme plan validate tests/planner/published_runs.csv --leave-one-out");
  validate->callback([command, &exit_code] { exit_code = command->Run(); });
}

}  // namespace trireme
