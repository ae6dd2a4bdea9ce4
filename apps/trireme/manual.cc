#include <CLI/CLI.hpp>
#include <cstdio>

#include "apps/trireme/command_tree.h"
#include "apps/trireme/commands.h"

namespace trireme {
namespace {

// Text as roff reads it: no hyphens out of minus signs, no requests out of lines that begin with a dot.
std::string Roff(const std::string& text) {
  std::string roff;
  bool line_begins = true;
  for (const char letter : text) {
    if (line_begins && (letter == '.' || letter == '\'')) {
      roff += "\\&";
    }
    line_begins = letter == '\n';
    roff += letter == '\\' ? std::string("\\e") : letter == '-' ? std::string("\\-") : std::string(1, letter);
  }
  return roff;
}

std::string Spaced(std::string path) {
  std::replace(path.begin(), path.end(), '/', ' ');
  return path;
}

std::string Section(const CommandText& command) {
  std::string text = ".SS \"" + Roff(Spaced(command.path)) + "\"\n" + Roff(command.description) + ".\n";
  for (const OptionText& option : command.options) {
    text += ".TP\n";
    for (std::size_t i = 0; i < option.names.size(); ++i) {
      text += (i > 0 ? ", \\fB" : "\\fB") + Roff(option.names[i]) + "\\fR";
    }
    text += option.takes_value && !option.positional ? " \\fIVALUE\\fR\n" : "\n";
    text += Roff(option.description) + "\n";
  }
  if (!command.footer.empty()) {
    // A line that begins with a newline would end the block's first paragraph.
    text += ".PP\n.nf\n" + Roff(command.footer.substr(command.footer.find_first_not_of('\n'))) + "\n.fi\n";
  }
  return text;
}

std::string Manual(const CLI::App& app) {
  const std::vector<CommandText> commands = CommandsOf(app);
  std::string text =
      ".TH TRIREME 1\n.SH NAME\ntrireme \\- plan, train and measure language models\n"
      ".SH SYNOPSIS\n.B trireme\n.I COMMAND\n[\\fIOPTION\\fR]...\n"
      ".SH DESCRIPTION\n" +
      Roff(commands.front().description) + "\n.SH COMMANDS\n";
  for (std::size_t i = 1; i < commands.size(); ++i) {
    text += Section(commands[i]);
  }
  return text +
         ".SH EXIT STATUS\n.TP\n0\ndone\n.TP\n1\nthe work failed or found something wrong\n.TP\n2\nthe input cannot be "
         "used; nothing was written\n.TP\n3\nstopped on request after a save\n";
}

}  // namespace

void AddManualCommand(CLI::App& app, int& exit_code) {
  CLI::App* manual = app.add_subcommand("manual", "Print the manual page, for man");
  manual->footer("\nExample:\n  trireme manual | man -l -");
  manual->callback([&app, &exit_code] {
    std::fputs(Manual(app).c_str(), stdout);
    exit_code = 0;
  });
}

}  // namespace trireme
