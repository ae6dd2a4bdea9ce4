#include "run/sweep.h"

// Its assertions would end the program.

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "base/text_file.h"
#include "topology/toml_text.h"

namespace trireme {
namespace {

constexpr std::size_t kMostCases = 10'000;

// As TOML writes it, for --set.
std::string TextOf(const toml::node& node) {
  std::ostringstream text;
  node.visit([&](const auto& value) { text << toml::node_view<const toml::node>(&value); });
  return text.str();
}

std::vector<std::string> OverridesOf(const toml::table& table) {
  std::vector<std::string> overrides;
  for (const auto& [key, value] : table) {
    overrides.push_back(std::string(key.str()) + "=" + TextOf(value));
  }
  return overrides;
}

std::string JoinedBySpaces(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

// Every combination of the lists; the last key changes fastest.
std::vector<std::vector<std::string>> Combinations(const toml::table& grid, const std::string& origin) {
  std::vector<std::vector<std::string>> all = {{}};
  for (const auto& [key, values] : grid) {
    const toml::array* const list = values.as_array();
    Require(list != nullptr && !list->empty(), "{}: grid.{} must be a list of values, such as [1, 2]", origin,
            key.str());
    std::vector<std::vector<std::string>> longer;
    Require(all.size() * list->size() <= kMostCases, "{}: the grid has more than {} cases", origin, kMostCases);
    for (const std::vector<std::string>& before : all) {
      for (const toml::node& value : *list) {
        longer.push_back(before);
        longer.back().push_back(std::string(key.str()) + "=" + TextOf(value));
      }
    }
    all = std::move(longer);
  }
  return all;
}

// Whole numbers and texts of the top level, each asked for once.
class Top {
 public:
  Top(const toml::table& table, const std::string& origin) : table_(table), origin_(origin) {}
  double Number(const char* key, double otherwise, double least) const {
    const toml::node* const node = table_.get(key);
    if (node == nullptr) {
      return otherwise;
    }
    const std::optional<double> value = node->value<double>();
    Require(value.has_value() && *value >= least && *value < 1e9, "{}: {} must be a number of at least {}", origin_,
            key, least);
    return *value;
  }
  std::string Text(const char* key, const std::string& otherwise) const {
    const toml::node* const node = table_.get(key);
    Require(node == nullptr || node->is_string(), "{}: {} must be text", origin_, key);
    return node == nullptr ? otherwise : node->as_string()->get();
  }

 private:
  const toml::table& table_;
  const std::string& origin_;
};

void RequireKnown(const toml::table& table, const std::string& origin) {
  static const std::vector<std::string> kKnown = {"about",   "recipe",  "warmup",   "steps",
                                                  "repeats", "timeout", "launcher", "devices_per_node",
                                                  "set",     "grid",    "case"};
  for (const auto& [key, value] : table) {
    const std::string name(key.str());
    Require(std::find(kKnown.begin(), kKnown.end(), name) != kKnown.end(), "{}: '{}' is no key of a sweep{}", origin,
            name, NearestMatch(name, kKnown));
  }
}

}  // namespace

Sweep ParseSweep(const std::string& text, const std::string& origin) {
  toml::table table;
  try {
    table = ParseToml(text);
  } catch (const TomlFault& fault) {
    Fail("{} line {}: {}", origin, fault.line, fault.what());
  }
  RequireKnown(table, origin);
  const Top top(table, origin);
  Sweep sweep{.name = std::filesystem::path(origin).stem().string(),
              .about = top.Text("about", ""),
              .recipe = top.Text("recipe", ""),
              .warmup = static_cast<int>(top.Number("warmup", 3, 0)),
              .steps = static_cast<int>(top.Number("steps", 8, 1)),
              .repeats = static_cast<int>(top.Number("repeats", 1, 1)),
              .timeout = top.Number("timeout", 600, 1),
              .launcher = top.Text("launcher", ""),
              .devices_per_node = static_cast<int>(top.Number("devices_per_node", 0, 0)),
              .cases = {}};
  Require(!sweep.recipe.empty(), "{}: recipe is missing: a TOML file, or the name of one of recipes/", origin);
  const std::vector<std::string> common =
      table["set"].is_table() ? OverridesOf(*table["set"].as_table()) : std::vector<std::string>{};
  std::vector<std::vector<std::string>> settings;
  if (const toml::table* const grid = table["grid"].as_table()) {
    settings = Combinations(*grid, origin);
  }
  if (const toml::array* const cases = table["case"].as_array()) {
    for (const toml::node& one : *cases) {
      Require(one.is_table(), "{}: write cases as [[case]] tables", origin);
      settings.push_back(OverridesOf(*one.as_table()));
    }
  }
  Require(!settings.empty(), "{}: there is nothing to run: give [grid] or [[case]]", origin);
  for (const std::vector<std::string>& own : settings) {
    SweepCase added{.label = JoinedBySpaces(own), .overrides = common};
    added.overrides.insert(added.overrides.end(), own.begin(), own.end());
    sweep.cases.push_back(std::move(added));
  }
  return sweep;
}

Sweep LoadSweep(const std::string& path) {
  constexpr std::int64_t kLargest = 4 << 20;
  return ParseSweep(ReadTextFile(path, kLargest, "sweep"), path);
}

}  // namespace trireme
