#include "measure/calibrate.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "apps/trireme/commands.h"
#include "apps/trireme/plan_validate.h"
#include "base/durable_file.h"
#include "base/error.h"
#include "base/plain_text.h"
#include "comm/launch_environment.h"
#include "comm/rank_runner.h"
#include "measure/calibration_text.h"
#include "topology/calibration_file.h"
#include "topology/cluster.h"

namespace trireme {
namespace {

struct CalibrateCommand {
  CalibrateOptions options;
  std::string output;
  bool json = false;

  int Run();
};

// What was measured here before; a file that cannot be read is about to be replaced.
std::optional<Cluster> Earlier(const std::string& machine) {
  try {
    return LoadCalibration(machine);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Launchers put a pipe before their processes: a line for each part.
void ShowPart(double done, const std::string& what) {
  std::fprintf(stderr, "calibrate %3.0f %%  %s\n", 100 * done, what.c_str());
}

// A line that is rewritten on a terminal, else nothing: files need no history of it.
void ShowProgress(double done, const std::string& what) {
  std::fprintf(stderr, "\r\033[K%3.0f %%  %s", 100 * done, what.c_str());
}

int CalibrateCommand::Run() {
  const std::string machine = MachineName(options.device);
  const std::string path = output.empty() ? CalibrationPath(machine) : output;
  Require(!path.empty(), "neither XDG_CONFIG_HOME nor HOME is set: name a file with --output");
  const bool first = RankFromEnvironment().value_or(0) == 0;
  const bool live = first && !LaunchedByMpi() && isatty(STDERR_FILENO) != 0;
  if (live) {
    options.progress = ShowProgress;
  } else if (first && LaunchedByMpi()) {
    options.progress = ShowPart;
  }
  options.earlier = Earlier(machine);
  options.known = ClosestByDevice(LoadClusters(DataFolder("", "clusters")), machine);
  const std::optional<Cluster> cluster = Calibrate(options);
  if (live) {
    std::fputs("\r\033[K", stderr);
  }
  if (!cluster) {
    return 0;  // a process whose rank is not 0
  }
  if (const std::filesystem::path folder = std::filesystem::path(path).parent_path(); !folder.empty()) {
    MakeDirectories(folder.string());
  }
  if (cluster->measured->others > 0.05) {
    std::fprintf(stderr, "trireme: others had %.0f %% of the cores meanwhile: calibrate again when nothing else runs\n",
                 100 * cluster->measured->others);
  }
  if (cluster->measured->slowest > 0.1) {
    std::fprintf(stderr, "trireme: rank %d is %.0f %% slower than the fastest, and a step waits for it\n",
                 cluster->measured->slowest_rank, 100 * cluster->measured->slowest);
  }
  ReplaceFile(path,
              ToToml(*cluster, "Written by `trireme calibrate`; delete this file to plan from data sheets again."));
  if (json) {
    std::fputs((CalibrationJson(*cluster, path)).c_str(), stdout);
  } else {
    Print(stdout, CalibrationText(*cluster));
    std::printf("wrote %s\n", path.c_str());
  }
  return 0;
}

constexpr const char* kCalibrateExamples = R"(
Examples:
  trireme calibrate
  trireme calibrate --quick --output here.toml
  mpirun -n 8 trireme calibrate
  srun --nodes 2 --ntasks-per-node 8 trireme calibrate --disk $SCRATCH

The file lies in $XDG_CONFIG_HOME/trireme or ~/.config/trireme, named after the machine. `plan` without --cluster and
`train` use it; deleting it restores the prior. Run it while nothing else does. Under mpirun or srun all processes
measure at once, collectives go as they do in a run of that launch, and the slowest process counts.
Exit codes: 0 done; 1 failed; 2 unusable input.)";

}  // namespace

void AddCalibrateCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<CalibrateCommand>();
  CLI::App* calibrate =
      app.add_subcommand("calibrate", "Measure this machine for the planner, about a minute; under mpirun all of them");
  calibrate->add_option("--output", command->output, "File to write, instead of the one that plan and train find");
  calibrate->add_flag("--quick", command->options.quick, "Fewer sizes and repetitions: some seconds, rougher");
  calibrate->add_flag("--json", command->json, "One JSON object instead of a summary");
  calibrate->add_option("--device", command->options.device, "auto, cpu or cuda (auto)");
  calibrate->add_option("--disk", command->options.disk_folder, "Folder whose disk is measured (the current one)");
  calibrate->footer(kCalibrateExamples);
  calibrate->callback([command, &exit_code] { exit_code = command->Run(); });
}

}  // namespace trireme
