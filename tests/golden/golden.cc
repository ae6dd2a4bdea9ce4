#include "golden/golden.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

namespace trireme::golden {
namespace {

std::vector<std::string> LinesOf(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

// The second: a member of a JSON object.
bool OpensSection(const std::string& line) { return line.starts_with("# ") || line.starts_with(" \""); }

using Section = std::pair<std::string, std::vector<std::string>>;

std::vector<Section> SectionsOf(const std::string& text) {
  std::vector<Section> sections;
  for (const std::string& line : LinesOf(text)) {
    if (sections.empty() || OpensSection(line)) {
      sections.emplace_back(line, std::vector<std::string>{});
    }
    sections.back().second.push_back(line);
  }
  return sections;
}

// Lines that only one of the two has, by their longest common subsequence; "-" stands before those of the file.
std::string DiffOf(const std::vector<std::string>& expected, const std::vector<std::string>& actual) {
  const std::size_t rows = expected.size();
  const std::size_t columns = actual.size();
  std::vector<std::vector<int>> common(rows + 1, std::vector<int>(columns + 1, 0));
  for (std::size_t i = rows; i-- > 0;) {
    for (std::size_t j = columns; j-- > 0;) {
      common[i][j] = expected[i] == actual[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::string diff;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < rows || j < columns) {
    if (i < rows && j < columns && expected[i] == actual[j]) {
      ++i;
      ++j;
    } else if (j == columns || (i < rows && common[i + 1][j] >= common[i][j + 1])) {
      diff += "- " + expected[i++] + "\n";
    } else {
      diff += "+ " + actual[j++] + "\n";
    }
  }
  return diff;
}

const Section* Find(const std::vector<Section>& sections, const std::string& heading) {
  const auto found =
      std::find_if(sections.begin(), sections.end(), [&](const Section& one) { return one.first == heading; });
  return found == sections.end() ? nullptr : &*found;
}

// Section by section, so that one that was moved is compared with itself.
std::string DiffOfSections(const std::string& expected, const std::string& actual) {
  const std::vector<Section> before = SectionsOf(expected);
  const std::vector<Section> after = SectionsOf(actual);
  std::string diff;
  for (const Section& section : before) {
    const Section* const now = Find(after, section.first);
    if (now == nullptr) {
      diff += fmt::format("- {}\n  (the whole section, {} lines)\n", section.first, section.second.size());
    } else if (now->second != section.second) {
      diff += fmt::format("in '{}':\n{}", section.first, DiffOf(section.second, now->second));
    }
  }
  for (const Section& section : after) {
    if (Find(before, section.first) == nullptr) {
      diff += fmt::format("+ {}\n  (the whole section, {} lines)\n", section.first, section.second.size());
    }
  }
  return diff.empty() ? "sections are in another order\n" : diff;
}

// The first lines of a long text.
std::string Start(const std::string& text, std::size_t most) {
  const std::vector<std::string> lines = LinesOf(text);
  std::string start;
  for (std::size_t i = 0; i < std::min(most, lines.size()); ++i) {
    start += lines[i] + "\n";
  }
  return lines.size() > most ? start + fmt::format("… and {} lines more\n", lines.size() - most) : start;
}

}  // namespace

void ExpectGolden(const std::string& name, const std::string& actual) {
  const std::string path = std::string(TRIREME_SOURCE_DIR) + "/tests/golden/expected/" + name;
  if (const char* const update = std::getenv("TRIREME_UPDATE_GOLDEN"); update != nullptr && *update == '1') {
    std::ofstream(path, std::ios::binary) << actual;
    return;
  }
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file) << path << " cannot be read; scripts/update-golden writes it";
  std::ostringstream text;
  text << file.rdbuf();
  const std::string expected = text.str();
  if (expected != actual) {
    ADD_FAILURE() << "tests/golden/expected/" << name << " differs (- the file, + this program):\n"
                  << Start(DiffOfSections(expected, actual), 60)
                  << "If that is meant, run scripts/update-golden and commit the files with the reason.";
  }
}

std::string Rounded(double value) { return fmt::format("{:.9g}", value); }

void RoundNumbers(nlohmann::json& value) {
  if (value.is_number_float()) {
    value = std::strtod(Rounded(value.get<double>()).c_str(), nullptr);
  }
  if (value.is_structured()) {
    std::for_each(value.begin(), value.end(), RoundNumbers);
  }
}

}  // namespace trireme::golden
