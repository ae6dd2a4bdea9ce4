#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string_view>
#include <thread>

#include "apps/trireme/brief_spinning.h"
#include "apps/trireme/command_line.h"
#include "apps/trireme/commands.h"
#include "base/error.h"
#include "base/plain_text.h"
#include "comm/launch_environment.h"
#include "comm/rank_runner.h"

namespace {

// A program started without a standard stream would give its number to the next file it opens, and print into that.
void OpenStandardStreams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (fcntl(stream, F_GETFD) < 0) {
      open("/dev/null", O_RDWR);
    }
  }
}

// Every process of a job finds the same mistake. The first tells it at once; the others wait until the launcher has
// ended them, and speak only when it has not: then the mistake is theirs alone.
int RefuseInput(const std::string& message) {
  if (trireme::LaunchedByMpi() && trireme::RankFromEnvironment().value_or(0) != 0) {
    std::this_thread::sleep_for(std::chrono::seconds(3));
  }
  trireme::Print(stderr, "trireme: " + message + "\n");
  return trireme::kExitBadInput;
}

// `trireme --check-arguments COMMAND …` parses the rest as ever and does nothing: for tests of documents and scripts.
void OnlyParses(int& argc, char** argv, CLI::App& app) {
  if (argc < 2 || std::string_view(argv[1]) != "--check-arguments") {
    return;
  }
  std::copy(argv + 2, argv + argc, argv + 1);
  --argc;
  // Runs when everything has been parsed, before any command's own callback.
  app.parse_complete_callback([] { throw CLI::Success(); });
}

int Run(int argc, char** argv) {
  CLI::App app{"Trireme plans, trains and measures language models with tensor, pipeline and data parallelism."};
  app.require_subcommand(1);
  app.set_version_flag("--version", "trireme " TRIREME_VERSION "\n" TRIREME_BUILD);
  int exit_code = 0;
  trireme::AddPlanCommand(app, exit_code);
  trireme::AddFormulaCommand(app, exit_code);
  trireme::AddModelCommand(app, exit_code);
  trireme::AddTrainCommand(app, exit_code);
  trireme::AddDiagnoseCommand(app, exit_code);
  trireme::AddStatusCommand(app, exit_code);
  trireme::AddReportCommand(app, exit_code);
  trireme::AddWatchCommand(app, exit_code);
  trireme::AddBenchCommand(app, exit_code);
  trireme::AddCompareCommand(app, exit_code);
  trireme::AddDataCommand(app, exit_code);
  trireme::AddCheckpointCommand(app, exit_code);
  trireme::AddGenerateCommand(app, exit_code);
  trireme::AddChatCommand(app, exit_code);
  trireme::AddEvaluateCommand(app, exit_code);
  trireme::AddScheduleCommand(app, exit_code);
  trireme::AddCalibrateCommand(app, exit_code);
  trireme::AddMachineCommand(app, exit_code);
  trireme::AddCompletionCommand(app, exit_code);
  trireme::AddManualCommand(app, exit_code);
  trireme::AcceptUnits(app);
  OnlyParses(argc, argv, app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      return app.exit(error);  // help or version, asked for
    }
    return RefuseInput(trireme::ExplainParseError(app, error));
  } catch (const trireme::Error& error) {
    return RefuseInput(error.what());
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  OpenStandardStreams();
  trireme::SpinBriefly(argc, argv);
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {
    trireme::Print(stderr, std::string("trireme: ") + error.what() + "\n");
    return trireme::kExitFailed;
  }
}
