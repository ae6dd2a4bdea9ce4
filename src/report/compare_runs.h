// `trireme compare A B`: what got slower, larger or learns worse from A to B, with the noise of the measurements taken
// into account. A and B are folders of runs, or tables (.csv) of `trireme bench` whose cases are compared one by one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

enum class Direction : std::uint8_t { kSame, kBetter, kWorse, kNotJudged };

struct Difference {
  std::string what;  // "seconds per step", "tp=2: memory"
  std::string unit;  // "s", "GB", "bytes"; "": a number alone
  double before = 0;
  double after = 0;
  double noise = 0;   // share of `before` that measurements of one build differ by
  double change = 0;  // share of `before`; above 0 is more
  Direction direction = Direction::kSame;
  std::string remark;  // why it is not judged
};

// Losses of runs that differ in data or tokens are shown and not judged. A change counts when it is larger than the
// noise and than `least` (a share). `ratios`: seconds of tables are divided by those of their first case that both ran,
// so that tables of two machines can be compared. An Error where the two cannot be compared.
std::vector<Difference> CompareRuns(const std::string& before, const std::string& after, double least,
                                    bool ratios = false);

std::string ToText(const std::vector<Difference>& differences);
// The keys of run.toml in which two run folders differ, a line each, those of the layout first:
// "layout.zero: 1 -> 3". Empty for tables, and where nothing differs.
std::string SettingsThatDiffer(const std::string& before, const std::string& after);
bool AnyWorse(const std::vector<Difference>& differences);

}  // namespace trireme
