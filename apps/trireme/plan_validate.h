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
// The path of a file that comes with the program, or of the user's own: `name` in the folder `told` or, where that is
// empty, in the folders of this kind ("clusters"), the program's first. Standard error says which was taken where both
// have the name.
std::string NamedPath(const std::string& told, const std::string& kind, const std::string& name, const char* what);
// Prints a NamedFile's Choice, once a job; "" is none.
void SayChoice(const std::string& choice);

}  // namespace trireme
