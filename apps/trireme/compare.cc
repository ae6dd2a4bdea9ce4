#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "apps/trireme/command_line.h"
#include "apps/trireme/commands.h"
#include "base/plain_text.h"
#include "report/compare_runs.h"

namespace trireme {
namespace {

struct CompareCommand {
  std::string before;
  std::string after;
  double least = 0.01;
  bool ratios = false;

  int Run() const {
    const std::vector<Difference> differences = CompareRuns(before, after, least, ratios);
    Print(stdout, SettingsThatDiffer(before, after) + ToText(differences));
    return AnyWorse(differences) ? kExitFailed : 0;
  }
};

constexpr const char* kCompareExamples = R"(
Examples:
  trireme compare runs/before runs/after
  trireme compare bench/before/table.csv bench/after/table.csv --least 0.05
  trireme compare benchmarks/baseline/cpu.csv bench/baseline_cpu/table.csv --ratios --least 0.15

Exit codes: 0 nothing is worse; 1 something is slower, larger or learns worse; 2 the two cannot be compared.)";

}  // namespace

void AddCompareCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<CompareCommand>();
  CLI::App* compare = app.add_subcommand(
      "compare", "Say what got slower, larger or learns worse between two runs or two tables of bench, beyond noise");
  compare->add_option("before", command->before, "Folder of a run, or a table (.csv) of bench")->required();
  compare->add_option("after", command->after, "The same kind, later")->required();
  compare->add_option("--least", command->least, "Share of a change that counts, beyond the noise (0.01)")
      ->check(NotNegative());
  compare->add_flag("--ratios", command->ratios,
                    "Of two tables: seconds over those of the first case, to compare tables of two machines");
  compare->footer(kCompareExamples);
  compare->callback([command, &exit_code] { exit_code = command->Run(); });
}

}  // namespace trireme
