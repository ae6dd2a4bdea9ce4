#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "apps/trireme/command_tree.h"
#include "apps/trireme/commands.h"

namespace trireme {
namespace {

// A word that a command may be followed by, and what it means.
struct Choice {
  std::string word;
  std::string meaning;
};

std::string DescriptionOf(const std::vector<CommandText>& commands, const std::string& path) {
  const auto found =
      std::find_if(commands.begin(), commands.end(), [&](const auto& each) { return each.path == path; });
  return found == commands.end() ? "" : found->description;
}

std::vector<Choice> ChoicesOf(const std::vector<CommandText>& commands, const CommandText& command) {
  std::vector<Choice> choices;
  for (const std::string& name : command.subcommands) {
    choices.push_back({name, DescriptionOf(commands, command.path + "/" + name)});
  }
  for (const OptionText& option : command.options) {
    for (const std::string& name : option.names) {
      if (!option.positional) {
        choices.push_back({name, option.description});
      }
    }
  }
  return choices;
}

// Within single quotes of a shell. A meaning is one line there.
std::string Quoted(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::string quoted;
  for (const char letter : text) {
    quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  }
  return "'" + quoted + "'";
}

// Paths of the commands below the first, as patterns of the shells' `case`.
std::string Paths(const std::vector<CommandText>& commands, const char* separator) {
  std::vector<std::string> paths;
  for (std::size_t i = 1; i < commands.size(); ++i) {
    paths.push_back(commands[i].path);
  }
  return fmt::format("{}", fmt::join(paths, separator));
}

std::string ForBash(const std::vector<CommandText>& commands) {
  std::string text = fmt::format(R"(# Completion of trireme for bash; made by `trireme completion bash`.
_trireme() {{
  local word words="" command=trireme current=${{COMP_WORDS[COMP_CWORD]}}
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$command/$word" in
      {}) command="$command/$word" ;;
    esac
  done
  case "$command" in
)",
                                 Paths(commands, "|"));
  for (const CommandText& command : commands) {
    std::vector<std::string> words;
    for (const Choice& choice : ChoicesOf(commands, command)) {
      words.push_back(choice.word);
    }
    text += fmt::format("    {}) words=\"{}\" ;;\n", command.path, fmt::join(words, " "));
  }
  return text + R"(  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
# File names where no word fits.
complete -o default -F _trireme trireme
)";
}

std::string ForZsh(const std::vector<CommandText>& commands) {
  std::string text = fmt::format(R"(#compdef trireme
# Completion of trireme for zsh; made by `trireme completion zsh`.
_trireme() {{
  local word command=trireme
  local -a choices
  for word in "${{(@)words[2,CURRENT-1]}}"; do
    case "$command/$word" in
      ({}) command="$command/$word" ;;
    esac
  done
  case "$command" in
)",
                                 Paths(commands, "|"));
  for (const CommandText& command : commands) {
    text += fmt::format("    ({})\n      choices=(\n", command.path);
    for (const Choice& choice : ChoicesOf(commands, command)) {
      text += fmt::format("        {}\n", Quoted(choice.word + ":" + choice.meaning));
    }
    text += "      ) ;;\n";
  }
  return text + R"(  esac
  _describe -o 'trireme' choices || _files
}
if [[ $funcstack[1] == _trireme ]]; then
  _trireme "$@"
else
  compdef _trireme trireme
fi
)";
}

std::string ForFish(const std::vector<CommandText>& commands) {
  std::string text = fmt::format(R"(# Completion of trireme for fish; made by `trireme completion fish`.
function __trireme_command
  set -l command trireme
  for word in (commandline -opc)[2..-1]
    switch "$command/$word"
      case {}
        set command "$command/$word"
    end
  end
  echo $command
end
)",
                                 Paths(commands, " "));
  for (const CommandText& command : commands) {
    const std::string at = fmt::format("complete -c trireme -n 'test (__trireme_command) = {}'", command.path);
    for (const std::string& name : command.subcommands) {
      text += fmt::format("{} -a {} -d {}\n", at, name, Quoted(DescriptionOf(commands, command.path + "/" + name)));
    }
    for (const OptionText& option : command.options) {
      for (const std::string& name : option.names) {
        if (!option.positional) {
          const bool is_long = name.starts_with("--");
          text += fmt::format("{} {} {}{} -d {}\n", at, is_long ? "-l" : "-s", name.substr(is_long ? 2 : 1),
                              option.takes_value ? " -r" : "", Quoted(option.description));
        }
      }
    }
  }
  return text;
}

struct CompletionCommand {
  std::string shell;

  int Run(const CLI::App& app) const {
    const std::vector<CommandText> commands = CommandsOf(app);
    const std::string text = shell == "bash"  ? ForBash(commands)
                             : shell == "zsh" ? ForZsh(commands)
                                              : ForFish(commands);
    std::fputs(text.c_str(), stdout);
    return 0;
  }
};

}  // namespace

void AddCompletionCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<CompletionCommand>();
  CLI::App* completion = app.add_subcommand("completion", "Print the completion of commands and options for a shell");
  completion->add_option("shell", command->shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->footer(
      "\nExamples:\n"
      "  trireme completion bash > ~/.local/share/bash-completion/completions/trireme\n"
      "  trireme completion zsh > ~/.zfunc/_trireme         # where ~/.zfunc is in fpath\n"
      "  trireme completion fish > ~/.config/fish/completions/trireme.fish");
  completion->callback([command, &app, &exit_code] { exit_code = command->Run(app); });
}

}  // namespace trireme
