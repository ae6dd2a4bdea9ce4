// The subcommands: one function, one file each. A command registers its options and, when it is chosen, runs and leaves
// its exit code (base/exit_codes.h).
#pragma once

#include "base/exit_codes.h"

namespace CLI {
class App;
}

namespace trireme {

void AddPlanCommand(CLI::App& app, int& exit_code);
void AddFormulaCommand(CLI::App& app, int& exit_code);
void AddModelCommand(CLI::App& app, int& exit_code);
void AddTrainCommand(CLI::App& app, int& exit_code);
void AddDiagnoseCommand(CLI::App& app, int& exit_code);
void AddScheduleCommand(CLI::App& app, int& exit_code);
void AddDataCommand(CLI::App& app, int& exit_code);
void AddCheckpointCommand(CLI::App& app, int& exit_code);
void AddGenerateCommand(CLI::App& app, int& exit_code);
void AddChatCommand(CLI::App& app, int& exit_code);
void AddEvaluateCommand(CLI::App& app, int& exit_code);
void AddCalibrateCommand(CLI::App& app, int& exit_code);
void AddMachineCommand(CLI::App& app, int& exit_code);
void AddBenchCommand(CLI::App& app, int& exit_code);
void AddCompareCommand(CLI::App& app, int& exit_code);
void AddStatusCommand(CLI::App& app, int& exit_code);
void AddReportCommand(CLI::App& app, int& exit_code);
void AddWatchCommand(CLI::App& app, int& exit_code);
void AddCompletionCommand(CLI::App& app, int& exit_code);
void AddManualCommand(CLI::App& app, int& exit_code);

}  // namespace trireme
