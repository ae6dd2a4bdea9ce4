#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "apps/trireme/commands.h"
#include "base/error.h"

namespace {

// A program started without a standard stream would give its number to the next file it opens, and print into that.
void OpenStandardStreams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (fcntl(stream, F_GETFD) < 0) {
      open("/dev/null", O_RDWR);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  OpenStandardStreams();
  CLI::App app{"Trireme plans, trains and measures language models with tensor, pipeline and data parallelism."};
  app.require_subcommand(1);
  app.set_version_flag("--version", "trireme " TRIREME_VERSION);
  int exit_code = 0;
  trireme::AddPlanCommand(app, exit_code);
  trireme::AddTrainCommand(app, exit_code);
  trireme::AddDiagnoseCommand(app, exit_code);
  trireme::AddDataCommand(app, exit_code);
  trireme::AddCheckpointCommand(app, exit_code);
  trireme::AddGenerateCommand(app, exit_code);
  trireme::AddEvaluateCommand(app, exit_code);
  trireme::AddScheduleCommand(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : trireme::kExitBadInput;
  } catch (const trireme::Error& error) {
    std::fprintf(stderr, "trireme: %s\n", error.what());
    return trireme::kExitBadInput;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trireme: %s\n", error.what());
    return trireme::kExitFailed;
  }
  return exit_code;
}
