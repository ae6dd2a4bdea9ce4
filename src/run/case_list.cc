#include "run/case_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/text_file.h"
#include "topology/toml_text.h"

namespace trireme {
namespace {

constexpr std::size_t kMostPlannedCases = 10'000;

std::string Stripped(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::vector<std::string> PartsOf(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) {
    parts.push_back(Stripped(part));
  }
  return parts;
}

// A name and the values that it takes.
using Values = std::pair<std::string, std::vector<std::string>>;

std::vector<CaseSettings> CasesOfGrid(const std::vector<Values>& grid, const std::string& origin) {
  std::vector<CaseSettings> all = {{}};
  for (const auto& [name, values] : grid) {
    Require(all.size() * values.size() <= kMostPlannedCases, "{}: the grid has more than {} cases", origin,
            kMostPlannedCases);
    std::vector<CaseSettings> longer;
    for (const CaseSettings& before : all) {
      for (const std::string& value : values) {
        longer.push_back(before);
        longer.back().emplace_back(name, value);
      }
    }
    all = std::move(longer);
  }
  return all;
}

// As a person would write it on the command line.
std::string SettingText(const toml::node& node, const std::string& origin, std::string_view name) {
  Require(node.is_string() || node.is_integer() || node.is_floating_point() || node.is_boolean(),
          "{}: {} must be a text, a number, true or false", origin, name);
  if (const auto* const text = node.as_string()) {
    return text->get();
  }
  std::ostringstream text;
  node.visit([&](const auto& value) { text << toml::node_view<const toml::node>(&value); });
  return text.str();
}

CaseSettings SettingsOf(const toml::table& table, const std::string& origin) {
  CaseSettings settings;
  for (const auto& [key, value] : table) {
    settings.emplace_back(std::string(key.str()), SettingText(value, origin, key.str()));
  }
  return settings;
}

std::vector<Values> GridOf(const toml::table& table, const std::string& origin) {
  std::vector<Values> grid;
  for (const auto& [key, values] : table) {
    const toml::array* const list = values.as_array();
    Require(list != nullptr && !list->empty(), "{}: grid.{} must be a list of values, such as [1, 2]", origin,
            key.str());
    grid.emplace_back(std::string(key.str()), std::vector<std::string>{});
    for (const toml::node& value : *list) {
      grid.back().second.push_back(SettingText(value, origin, key.str()));
    }
  }
  return grid;
}

CaseList FromToml(const std::string& text, const std::string& origin) {
  toml::table table;
  try {
    table = ParseToml(text);
  } catch (const TomlFault& fault) {
    Fail("{} line {}: {}", origin, fault.line, fault.what());
  }
  static const std::vector<std::string> kKnown = {"about", "set", "grid", "case"};
  for (const auto& [key, value] : table) {
    const std::string name(key.str());
    Require(std::find(kKnown.begin(), kKnown.end(), name) != kKnown.end(), "{}: '{}' is no key of a list of cases{}",
            origin, name, NearestMatch(name, kKnown));
  }
  CaseList list{.about = table["about"].value_or(std::string()), .common = {}, .cases = {}};
  if (const toml::table* const common = table["set"].as_table()) {
    list.common = SettingsOf(*common, origin);
  }
  if (const toml::table* const grid = table["grid"].as_table()) {
    list.cases = CasesOfGrid(GridOf(*grid, origin), origin);
  }
  if (const toml::array* const cases = table["case"].as_array()) {
    for (const toml::node& one : *cases) {
      Require(one.is_table(), "{}: write cases as [[case]] tables", origin);
      list.cases.push_back(SettingsOf(*one.as_table(), origin));
    }
  }
  return list;
}

// A line of CSV without line breaks in its fields.
std::vector<std::string> FieldsOf(const std::string& line, const std::string& origin) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char letter = line[at];
    if (letter == '"' && quoted && at + 1 < line.size() && line[at + 1] == '"') {
      fields.back() += line[++at];
    } else if (letter == '"') {
      quoted = !quoted;
    } else if (letter == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += letter;
    }
  }
  Require(!quoted, "{}: a quote that is not closed: {}", origin, line);
  return fields;
}

CaseList FromCsv(const std::string& text, const std::string& origin) {
  CaseList list;
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (Stripped(line).empty() || Stripped(line).starts_with('#')) {
      continue;
    }
    const std::vector<std::string> fields = FieldsOf(Stripped(line), origin);
    if (names.empty()) {
      names = fields;
      continue;
    }
    Require(fields.size() <= names.size(), "{}: {} fields below {} names: {}", origin, fields.size(), names.size(),
            line);
    list.cases.emplace_back();
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (!Stripped(fields[i]).empty()) {
        list.cases.back().emplace_back(Stripped(names[i]), Stripped(fields[i]));
      }
    }
  }
  return list;
}

Values NameAndText(const std::string& text, const std::string& whole) {
  const std::size_t equals = text.find('=');
  Require(equals != std::string::npos && equals > 0 && equals + 1 < text.size(),
          "'{}' in '{}' must be NAME=VALUE, such as nodes=4,8", text, whole);
  return {Stripped(text.substr(0, equals)), {Stripped(text.substr(equals + 1))}};
}

}  // namespace

CaseList ParseCaseList(const std::string& text, const std::string& origin) {
  CaseList list = origin.ends_with(".csv") ? FromCsv(text, origin) : FromToml(text, origin);
  Require(!list.cases.empty(), "{}: there is nothing to plan: give [grid] or [[case]]", origin);
  Require(list.cases.size() <= kMostPlannedCases, "{}: more than {} cases", origin, kMostPlannedCases);
  return list;
}

CaseList LoadCaseList(const std::string& path) {
  constexpr std::int64_t kLargest = 4 << 20;
  return ParseCaseList(ReadTextFile(path, kLargest, "list of cases"), path);
}

std::vector<CaseSettings> ParseGrid(const std::string& text) {
  std::vector<Values> grid;
  for (const std::string& part : PartsOf(text, ';')) {
    if (part.empty()) {
      continue;
    }
    Values one = NameAndText(part, text);
    const std::string values = one.second.front();
    one.second = PartsOf(values, values.find('|') != std::string::npos ? '|' : ',');
    grid.push_back(std::move(one));
  }
  Require(!grid.empty(), "--grid '{}' names nothing to vary; write it as \"nodes=4,8; mbs=1,2\"", text);
  return CasesOfGrid(grid, "--grid");
}

CaseSettings ParseCase(const std::string& text) {
  CaseSettings settings;
  for (const std::string& part : PartsOf(text, ';')) {
    if (!part.empty()) {
      const Values one = NameAndText(part, text);
      settings.emplace_back(one.first, one.second.front());
    }
  }
  return settings;
}

const std::string* ValueOf(const CaseSettings& settings, const std::string& name) {
  const auto found =
      std::find_if(settings.begin(), settings.end(), [&](const auto& setting) { return setting.first == name; });
  return found == settings.end() ? nullptr : &found->second;
}

std::string LabelOf(const CaseSettings& settings) {
  if (const std::string* const label = ValueOf(settings, "label")) {
    return *label;
  }
  std::string text;
  for (const auto& [name, value] : settings) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  }
  return text;
}

}  // namespace trireme
