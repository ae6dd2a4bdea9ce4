// The program's commands and options as plain data, read from CLI11's tree: what completion and the manual page are
// written from, so that they cannot differ from what the program accepts.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace trireme {

struct OptionText {
  std::vector<std::string> names;  // "--run", "-r"; of a positional argument its name, as help prints it
  bool positional = false;
  bool takes_value = false;
  std::string description;
};

struct CommandText {
  std::string path;  // "trireme", "trireme/checkpoint", "trireme/checkpoint/inspect"
  std::string description;
  std::string footer;  // examples and exit codes, as help prints them
  std::vector<OptionText> options;
  std::vector<std::string> subcommands;  // names, in the order of help
};

// Every command, each before those below it.
std::vector<CommandText> CommandsOf(const CLI::App& app);

// The last word of a path.
std::string NameOf(const CommandText& command);

}  // namespace trireme
