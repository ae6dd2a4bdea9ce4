// `plan validate`, and where the planner's files lie.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace trireme {

void AddPlanValidateCommand(CLI::App* plan, int& exit_code);
// A folder of shipped files (clusters, stacks, models): `told` if not empty, or beside the working folder or the
// program.
std::string DataFolder(const std::string& told, const std::string& name);

}  // namespace trireme
