#include "apps/trireme/command_tree.h"

#include <CLI/CLI.hpp>

namespace trireme {
namespace {

OptionText TextOf(const CLI::Option& option) {
  OptionText text{.positional = option.get_positional(),
                  .takes_value = option.get_items_expected_max() > 0,
                  .description = option.get_description()};
  if (text.positional) {
    text.names.push_back(option.get_name(true));
    return text;
  }
  for (const std::string& name : option.get_lnames()) {
    text.names.push_back("--" + name);
  }
  for (const std::string& name : option.get_snames()) {
    text.names.push_back("-" + name);
  }
  return text;
}

void Append(const CLI::App& app, const std::string& path, std::vector<CommandText>& commands) {
  CommandText command{.path = path, .description = app.get_description(), .footer = app.get_footer()};
  for (const CLI::Option* option : app.get_options()) {
    // Options without a group are not in the help either.
    if (!option->get_group().empty()) {
      command.options.push_back(TextOf(*option));
    }
  }
  const auto visible = app.get_subcommands([](const CLI::App* below) { return !below->get_group().empty(); });
  for (const CLI::App* below : visible) {
    command.subcommands.push_back(below->get_name());
  }
  commands.push_back(std::move(command));
  for (const CLI::App* below : visible) {
    Append(*below, path + "/" + below->get_name(), commands);
  }
}

}  // namespace

std::vector<CommandText> CommandsOf(const CLI::App& app) {
  std::vector<CommandText> commands;
  Append(app, "trireme", commands);
  return commands;
}

std::string NameOf(const CommandText& command) { return command.path.substr(command.path.rfind('/') + 1); }

}  // namespace trireme
