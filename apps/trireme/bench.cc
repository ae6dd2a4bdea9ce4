#include "report/bench.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "apps/trireme/command_line.h"
#include "apps/trireme/commands.h"
#include "apps/trireme/plan_validate.h"
#include "base/error.h"
#include "base/plain_text.h"
#include "topology/settings.h"

namespace trireme {
namespace {

struct BenchCommand {
  std::string sweep;
  std::string folder;
  std::string format = "text";
  int steps = 0;
  int repeats = 0;
  TableOptions table_options;
  bool list = false;

  int Run() const {
    Sweep read = LoadSweep(NamedPath("", "sweeps", sweep, "sweep"));
    Require(read.launcher.empty() || IsPath(sweep),
            "sweep '{}' starts its runs by a command of its own, '{}': give the sweep's path to run that command",
            sweep, read.launcher);
    read.recipe = NamedPath("", "recipes", read.recipe, "recipe");
    read.steps = steps > 0 ? steps : read.steps;
    read.repeats = repeats > 0 ? repeats : read.repeats;
    if (list) {
      for (const SweepCase& one : read.cases) {
        Print(stdout, one.label + "\n");
      }
      return 0;
    }
    const std::vector<BenchRow> rows =
        RunBench(read, {.folder = folder.empty() ? "bench/" + read.name : folder,
                        .program = std::filesystem::read_symlink("/proc/self/exe").string(),
                        .progress = [](const std::string& line) { Print(stderr, line + "\n"); },
                        .table = table_options});
    const RunTable table = TableOf(rows, table_options);
    Print(stdout, format == "text" ? BenchText(table) : Formatted(table, format));
    const bool any = std::any_of(rows.begin(), rows.end(), [](const BenchRow& row) { return row.failure.empty(); });
    return any ? 0 : kExitFailed;
  }
};

constexpr const char* kBenchExamples = R"(
Examples:
  trireme bench topology
  trireme bench sweeps/micro_batch.toml --out bench/mine --format markdown
  trireme report bench/topology --output study.html

Columns: sec/it is the median of the measured steps, spread half the distance of their quartiles; TFLOPs are executed ones
(recomputation included) per device, then those of the model, of 6 (8 with full recomputation) x parameters x tokens, and of
Megatron's formula; scaling is FLOPs that the model needs, per second and device, over the first row's (--relative-to); days and device-hours are for
100 billion tokens (--tokens). `trireme plan --cases` prints predicted runs with the same columns.
Exit codes: 0 at least one case ran; 1 none did; 2 the sweep cannot be used. After a kill the same command goes on.)";

}  // namespace

void AddBenchCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<BenchCommand>();
  CLI::App* bench = app.add_subcommand("bench", "Run a sweep of settings for real and print the table of a study");
  bench
      ->add_option("sweep", command->sweep,
                   "TOML file, or the name of one of sweeps/; a file's launcher runs only when its path is given")
      ->required();
  bench->add_option("--out", command->folder, "Folder of rows, runs and tables (bench/<sweep>)");
  bench
      ->add_option("--format", command->format,
                   "text, markdown, csv or json (text); the folder gets the first three, and plot.svg")
      ->check(CLI::IsMember({"text", "markdown", "csv", "json"}));
  AddTableOptions(*bench, command->table_options);
  bench
      ->add_option("--tokens", command->table_options.tokens,
                   "Tokens of the training that days, device-hours and cost are of (100B)")
      ->check(AboveZero());
  bench->add_option("--steps", command->steps, "Measured steps of a run, instead of the sweep's")->check(AboveZero());
  bench->add_option("--repeats", command->repeats, "Runs of each case, instead of the sweep's")->check(AboveZero());
  bench->add_flag("--list", command->list, "Print the cases and run none");
  bench->footer(kBenchExamples);
  bench->callback([command, &exit_code] { exit_code = command->Run(); });
}

}  // namespace trireme
