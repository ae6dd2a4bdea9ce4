#include "schedule/schedule.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "apps/trireme/commands.h"
#include "base/error.h"
#include "base/plain_text.h"

namespace trireme {
namespace {

struct ScheduleCommand {
  std::string name;
  int stages = 0;  // 0: as the file says, or the default
  int chunks = 0;
  int micro_batches = 0;
  bool text = false;
  int width = 160;

  int Run() const {
    if (name.empty()) {
      for (const ScheduleKind& kind : ScheduleKinds()) {
        std::printf("%-14s %s\n", kind.name.c_str(), kind.description.c_str());
      }
      return 0;
    }
    const Schedule schedule = Read();
    if (text) {
      Print(stdout, ToText(schedule));
      return 0;
    }
    Print(stdout, DrawGrid(schedule, width));
    return 0;
  }

 private:
  Schedule Read() const {
    const auto told = [](int count, int otherwise) { return count > 0 ? count : otherwise; };
    if (name.ends_with(kScheduleFileEnding)) {
      const Schedule file = ReadSchedule(name);
      return MakeSchedule(name, told(stages, file.stages), told(chunks, file.chunks),
                          told(micro_batches, file.micro_batches));
    }
    const ScheduleKind* kind = FindScheduleKind(name);
    const int fewest = kind != nullptr ? kind->least_chunks : 1;
    return MakeSchedule(name, told(stages, 4), told(chunks, fewest), told(micro_batches, 8));
  }
};

}  // namespace

void AddScheduleCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<ScheduleCommand>();
  CLI::App* schedule = app.add_subcommand("schedule", "Draw a pipeline schedule, or list the known ones");
  schedule->add_option("name", command->name,
                       "gpipe, 1f1b, interleaved, zero_bubble, zero_bubble_v, or a .schedule file");
  schedule->add_option("--stages", command->stages, "Pipeline stages (4; those of a file)");
  schedule->add_option("--chunks", command->chunks,
                       "Virtual stages per rank (the fewest that the schedule has; those of a file)");
  schedule->add_option("--micro-batches", command->micro_batches, "Micro batches of a step (8; those of a file)");
  schedule->add_flag("--text", command->text, "Print the schedule's text form, to be edited and used as a file");
  schedule->add_option("--width", command->width, "Columns of the drawing (160)");
  schedule->footer("\nExample:\n  trireme schedule interleaved --stages 4 --chunks 2 --micro-batches 8");
  schedule->callback([command, &exit_code] { exit_code = command->Run(); });
}

}  // namespace trireme
