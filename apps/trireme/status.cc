#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "apps/trireme/command_line.h"
#include "apps/trireme/commands.h"
#include "base/error.h"
#include "report/status_screen.h"

namespace trireme {
namespace {

struct StatusCommand {
  std::vector<std::string> folders;
  double watch = 0;
  int events = 5;
  bool json = false;

  // The state of all runs; a run that starts below a folder appears the next time.
  std::string Text(int terminal) const {
    std::string text;
    for (const std::string& folder : folders) {
      for (const std::string& run : RunFoldersOf(folder)) {
        text +=
            json ? StatusJson(ReadRun(run)) + "\n"
                 : (text.empty() ? "" : "\n") +
                       StatusScreen(FactsOf(ReadRun(run)),
                                    {.width = terminal > 0 ? terminal : 120, .colour = terminal > 0, .events = events});
      }
    }
    return text;
  }

  int Run() const {
    const int terminal = json ? 0 : TerminalWidth();
    for (bool again = false;; again = true) {
      const std::string text = Text(terminal);
      // A fresh screen on a terminal; elsewhere one report after the other.
      const std::string before = !again || json ? "" : terminal > 0 ? "\033[H\033[J" : "\n";
      std::fputs((before + text).c_str(), stdout);
      std::fflush(stdout);
      if (watch <= 0) {
        return 0;
      }
      std::this_thread::sleep_for(std::chrono::duration<double>(watch));
    }
  }
};

constexpr const char* kStatusExamples = R"(
Examples:
  trireme status runs/quickstart
  trireme status runs/a runs/b --watch 2
  trireme status runs --json

Exit codes: 0 shown; 2 a folder is none of a run.)";

}  // namespace

void AddStatusCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<StatusCommand>();
  CLI::App* status = app.add_subcommand(
      "status", "Show how far runs are: progress, time left, loss, speed beside the prediction, memory, last events");
  status->add_option("folders", command->folders, "Folders of runs, or folders that hold such")->required();
  status->add_option("--watch", command->watch, "Show it again every so many seconds, until it is interrupted")
      ->check(AboveZero());
  status->add_option("--events", command->events, "Events to show (5)")->check(NotNegative());
  status->add_flag("--json", command->json, "One JSON object a run");
  status->footer(kStatusExamples);
  status->callback([command, &exit_code] { exit_code = command->Run(); });
}

}  // namespace trireme
