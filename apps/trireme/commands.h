// The subcommands: one function, one file each. A command registers its options and, when it is chosen, runs and leaves
// its exit code. Exit codes: 0 done; 1 the work failed or found something wrong; 2 the input cannot be used (nothing
// was written); 3 stopped on request after a save.
#pragma once

namespace CLI {
class App;
}

namespace trireme {

inline constexpr int kExitFailed = 1;
inline constexpr int kExitBadInput = 2;
inline constexpr int kExitStopped = 3;
// 4 is the supervisor's kExitGaveUp, 5 is kExitUnsaved (operate/supervisor.h).

void AddPlanCommand(CLI::App& app, int& exit_code);
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
void AddCompletionCommand(CLI::App& app, int& exit_code);
void AddManualCommand(CLI::App& app, int& exit_code);

}  // namespace trireme
