// The whole product of law 1's factors, with a scoreboard: `parity_product [share] [of]` runs every `of`-th choice from
// `share` on. Hours on a laptop; CI runs a thin slice.
#include <cstdio>
#include <cstdlib>
#include <map>

#include "parity/layout_space.h"
#include "parity/parity.h"

using namespace trireme::parity;  // NOLINT: a test program

int main(int argc, char** argv) {
  const int share = argc > 1 ? std::atoi(argv[1]) : 0;
  const int of = argc > 2 ? std::atoi(argv[2]) : 1;
  const std::vector<Choice> all = AllChoices();
  std::map<std::string, std::pair<int, int>> score;  // by schedule: passed, failed
  int failed = 0;
  for (std::size_t i = static_cast<std::size_t>(share); i < all.size(); i += static_cast<std::size_t>(of)) {
    const trireme::RunConfig config = ConfigOf(all[i]);
    const Outcome one = Train({.config = OneRank(config), .steps = LawSteps()});
    const Outcome many = Train({.config = config, .steps = LawSteps()});
    const std::vector<std::string> differences = Differences(one, many, 1e-5);
    const bool same = differences.empty();
    auto& [passes, failures] = score[config.layout.schedule];
    ++(same ? passes : failures);
    failed += same ? 0 : 1;
    if (!same) {
      std::printf("%s: %s\n", NameOf(all[i]).c_str(), differences.front().c_str());
    }
  }
  std::printf("%-14s %8s %8s\n", "schedule", "passed", "failed");
  for (const auto& [name, counts] : score) {
    std::printf("%-14s %8d %8d\n", name.c_str(), counts.first, counts.second);
  }
  return failed == 0 ? 0 : 1;
}
