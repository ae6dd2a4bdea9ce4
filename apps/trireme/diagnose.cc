#include "report/diagnose.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "apps/trireme/commands.h"
#include "base/plain_text.h"

namespace trireme {
namespace {

struct DiagnoseCommand {
  std::string folder;
  bool json = false;

  int Run() const {
    const Diagnosis diagnosis = Diagnose(folder);
    Print(stdout, json ? diagnosis.json + "\n" : diagnosis.text);
    return diagnosis.status;
  }
};

constexpr const char* kDiagnoseExamples = R"(
Examples:
  trireme diagnose runs/quickstart
  trireme diagnose runs/quickstart/flight/death-001 --json

Exit codes: 0 every rank finished or stopped on request; 1 one did not; 2 there are no records.)";

}  // namespace

void AddDiagnoseCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<DiagnoseCommand>();
  CLI::App* diagnose =
      app.add_subcommand("diagnose", "Read a run's flight records: which rank, which collective, since when");
  diagnose->add_option("folder", command->folder, "Folder of a run, or of flight records")->required();
  diagnose->add_flag("--json", command->json, "One JSON object instead of text");
  diagnose->footer(kDiagnoseExamples);
  diagnose->callback([command, &exit_code] { exit_code = command->Run(); });
}

}  // namespace trireme
