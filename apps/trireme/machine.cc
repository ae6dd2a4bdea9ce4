#include "measure/machine.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "apps/trireme/commands.h"
#include "apps/trireme/this_machine.h"

namespace trireme {
namespace {

struct MachineCommand {
  bool json = false;
  bool quick = false;

  int Run() const {
    MachineReport report = ReportOfThisMachine();
    if (!quick) {
      MeasureMachine(report);
    }
    std::fputs((json ? MachineJson(report) : MachineText(report)).c_str(), stdout);
    return 0;
  }
};

constexpr const char* kMachineExamples = R"(
Examples:
  trireme machine --quick
  trireme machine
  trireme machine --json
  TRIREME_CPU_LEVEL=avx2 trireme machine --quick

Exit codes: 0 done; 2 unusable input.
Runs write what --quick --json prints to machine.json in their folder.)";

}  // namespace

void AddMachineCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<MachineCommand>();
  CLI::App* machine = app.add_subcommand(
      "machine", "What this machine has, how fast it is, what Trireme uses of it and what is missing");
  machine->add_flag("--json", command->json, "One JSON object instead of a screen");
  machine->add_flag("--quick", command->quick, "Without measuring products and memory, which takes some seconds");
  machine->footer(kMachineExamples);
  machine->callback([command, &exit_code] { exit_code = command->Run(); });
}

}  // namespace trireme
