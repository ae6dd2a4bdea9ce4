// Cases to be planned side by side (`trireme plan --cases FILE`): settings by name, those of all cases and those that
// tell each case from the others. TOML:
//
//   about = "what it shows"
//   [set]                            # for every case
//   cluster = "jean-zay-v100-32g"
//   [grid]                           # every combination of these
//   nodes = [4, 8]
//   [[case]]                         # or listed ones
//   label = "no recomputation"
//   layout = "tp=4 pp=8 dp=1"
//
// or CSV: names in the first line, a case a line, empty fields not given.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trireme {

using CaseSettings = std::vector<std::pair<std::string, std::string>>;  // name, value

struct CaseList {
  std::string about;
  CaseSettings common;
  std::vector<CaseSettings> cases;
};

// An Error names the file and what is wrong with it.
CaseList LoadCaseList(const std::string& path);
CaseList ParseCaseList(const std::string& text, const std::string& origin);

// Every combination of "nodes=4,8; layout=tp=2 pp=4|tp=4 pp=2": values end at '|' where there is one, else at ','; the
// last name changes fastest.
std::vector<CaseSettings> ParseGrid(const std::string& text);
// One case: "nodes=4; layout=tp=2 pp=4".
CaseSettings ParseCase(const std::string& text);

// The value of a setting; nullptr where it is not given.
const std::string* ValueOf(const CaseSettings& settings, const std::string& name);
// "nodes=4 mbs=2", or the setting "label".
std::string LabelOf(const CaseSettings& settings);

}  // namespace trireme
