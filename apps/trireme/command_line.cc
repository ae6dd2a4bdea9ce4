#include "apps/trireme/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "apps/trireme/plan_validate.h"
#include "base/count_text.h"
#include "base/error.h"
#include "base/json_text.h"
#include "run/users_words.h"
#include "topology/settings.h"

namespace trireme {
namespace {

std::string Complain(const std::string& text, bool zero) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool fine = error != std::errc() || value > 0 || (zero && value == 0);
  return fine ? "" : fmt::format("must be {} 0, not {}", zero ? "at least" : "above", text);
}

// The command that was reached before the trouble.
const CLI::App& Reached(const CLI::App& app) {
  const std::vector<CLI::App*> below = app.get_subcommands();
  return below.empty() ? app : Reached(*below.front());
}

std::string PathOf(const CLI::App& app) {
  return app.get_parent() == nullptr ? "trireme" : PathOf(*app.get_parent()) + " " + app.get_name();
}

std::vector<std::string> Subcommands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(one->get_name());
  }
  return names;
}

// " (did you mean '--set optimizer.learning_rate=…'?)" for what users of other programs call a key, else the nearest
// option.
std::string NearestOption(const CLI::App& at, const std::string& name) {
  std::vector<std::string> known;
  for (const CLI::Option* option : at.get_options()) {
    if (!option->get_positional() && option->get_name().starts_with("--")) {
      known.push_back(option->get_name().substr(2));
    }
  }
  const auto has = [&](const std::string& word) { return std::find(known.begin(), known.end(), word) != known.end(); };
  const std::string bare = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  if (std::string key = KeyOfUsersWord(bare); !key.empty()) {
    std::string own = key == "batch.global" ? "global-batch" : key.substr(key.rfind('.') + 1);
    std::replace(own.begin(), own.end(), '_', '-');
    const std::string meant = has("set")                                 ? fmt::format("--set {}=VALUE", key)
                              : has(own)                                 ? "--" + own
                              : has("fix") && key.starts_with("layout.") ? fmt::format("--fix \"{}=VALUE\"", bare)
                                                                         : "";
    if (!meant.empty()) {
      return fmt::format(" (did you mean '{}'?)", meant);
    }
  }
  // Without the dashes: they would make any two short names alike.
  std::string nearest = NearestMatch(bare, known);
  if (const std::size_t quote = nearest.find('\''); quote != std::string::npos) {
    nearest.insert(quote + 1, "--");
  }
  return nearest;
}

std::string UnknownWord(const CLI::App& at, const std::string& word) {
  if (word.starts_with("-")) {
    const std::string name = word.substr(0, word.find('='));
    return fmt::format("'{}' has no option '{}'{}", PathOf(at), name, NearestOption(at, name));
  }
  if (const std::vector<std::string> known = Subcommands(at); !known.empty()) {
    return fmt::format("'{}' has no command '{}'{}; known: {}", PathOf(at), word, NearestMatch(word, known),
                       fmt::join(known, ", "));
  }
  return fmt::format("'{}' takes no further word, but '{}' was given", PathOf(at), word);
}

// CLI11 says "Could not convert: --steps = many".
std::string NotConverted(const CLI::App& at, const std::string& said) {
  const std::size_t start = said.find(": ");
  const std::size_t equals = said.find(" = ");
  if (start == std::string::npos || equals == std::string::npos) {
    return said;
  }
  const std::string name = said.substr(start + 2, equals - start - 2);
  const CLI::Option* option = at.get_option_no_throw(name);
  const std::string type = option == nullptr ? "" : option->get_type_name();
  return fmt::format("{} = '{}' is no {}", name, said.substr(equals + 3),
                     type == "FLOAT"  ? "number"
                     : type == "UINT" ? "whole number of at least 0"
                                      : "whole number");
}

}  // namespace

CLI::Validator AboveZero() {
  return {[](std::string& text) { return Complain(text, false); }, ""};
}
CLI::Validator NotNegative() {
  return {[](std::string& text) { return Complain(text, true); }, ""};
}

void AddTableOptions(CLI::App& app, TableOptions& options) {
  app.add_option("--price", options.price, "Of a device-hour, in any currency: adds the column cost")
      ->check(AboveZero());
  app.add_option("--relative-to", options.relative_to,
                 "The row that \"scaling %\" refers to: its number or its case (the first that ran)");
}

std::string Formatted(const RunTable& table, const std::string& format) {
  return format == "markdown" ? ToMarkdown(table)
         : format == "csv"    ? ToCsv(table)
         : format == "json"   ? JsonText(ToJsonValue(table), {.indent = 2}) + "\n"
                              : ToText(table);
}

void AcceptUnits(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (!type.starts_with("INT") && !type.starts_with("UINT") && !type.starts_with("FLOAT")) {
      continue;
    }
    const std::string name = option->get_name();
    option->transform(CLI::Validator(
        [name](std::string& text) {
          const std::string digits = WithoutUnit(text);
          if (digits != text) {
            SayChoice(fmt::format("{} {} is {}", name, text, GroupedDigits(digits)));
            text = digits;
          }
          return std::string();
        },
        ""));
  }
  for (CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    AcceptUnits(*below);
  }
}

std::string ExplainParseError(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& at = Reached(app);
  const std::vector<std::string> unknown = at.remaining();
  std::string said = error.what();
  if (!unknown.empty()) {
    said = UnknownWord(at, unknown.front());
  } else if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    said = NotConverted(at, said);
  } else if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !Subcommands(at).empty()) {
    said = fmt::format("'{}' needs a command: {}", PathOf(at), fmt::join(Subcommands(at), ", "));
  }
  return fmt::format("{} ({} --help)", said, PathOf(at));
}

std::string RecipePath(const std::string& told) {
  std::error_code status;
  if (!LookForNamedFile(FoldersOf("recipes"), told) && std::filesystem::exists(told, status)) {
    return told;
  }
  constexpr std::string_view kSystems = "systems/";
  if (told.starts_with(kSystems) && !std::filesystem::exists(told, status)) {
    const std::string bare = told.substr(kSystems.size());
    return NamedPath("", "recipes", bare.ends_with(".toml") ? bare.substr(0, bare.size() - 5) : bare, "recipe");
  }
  if (told.ends_with(".toml") && !std::filesystem::exists(told, status)) {
    const std::string stem = std::filesystem::path(told).stem().string();
    std::vector<std::string> names;
    for (const std::string& folder : FoldersOf("recipes")) {
      for (const auto& entry : std::filesystem::directory_iterator(folder, status)) {
        names.push_back(entry.path().stem().string());
      }
    }
    Fail("recipe '{}' does not exist{}", told, NearestMatch(stem, names));
  }
  return NamedPath("", "recipes", told, "recipe");
}

}  // namespace trireme
