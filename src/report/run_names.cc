#include "report/run_names.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text_file.h"
#include "report/bench.h"
#include "report/run_record.h"

namespace trireme {
namespace {

// Names of a study's cases by the folders of their runs.
using CaseNames = std::map<std::string, std::string>;

CaseNames CasesOf(const std::string& study) {
  CaseNames names;
  LineReader file(study + "/rows.jsonl");
  for (std::string line; file.Next(line);) {
    const nlohmann::json row = ParseJsonOrDiscard(line);
    if (!row.is_object() || !row.contains("key") || !row["key"].is_string() || !row.contains("case") ||
        !row["case"].is_string()) {
      continue;
    }
    const std::string label = row["case"].get<std::string>();
    const int repeat = row.contains("repeat") && row["repeat"].is_number_integer() ? row["repeat"].get<int>() : 0;
    names[FolderOfCase(row["key"].get<std::string>())] =
        (label.empty() ? "as the recipe is" : label) + (repeat > 0 ? ", repeat " + std::to_string(repeat + 1) : "");
  }
  return names;
}

}  // namespace

std::vector<std::string> NamesOfRuns(const std::vector<std::string>& folders) {
  std::map<std::string, CaseNames> studies;
  std::map<std::string, int> uses;
  std::vector<std::string> names;
  for (const std::string& folder : folders) {
    const std::filesystem::path runs = std::filesystem::path(folder).lexically_normal().parent_path();
    std::string name = NameOfRun(folder);
    if (runs.filename() == "runs") {
      const std::string study = runs.has_parent_path() ? runs.parent_path().string() : ".";
      if (!studies.contains(study)) {
        studies[study] = CasesOf(study);
      }
      const auto found = studies[study].find(name);
      name = found == studies[study].end() ? name : found->second;
    }
    ++uses[name];
    names.push_back(std::move(name));
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (uses[names[i]] > 1) {
      names[i] = folders[i];
    }
  }
  return names;
}

}  // namespace trireme
