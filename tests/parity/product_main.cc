// The whole product of law 1's factors, with a scoreboard: `parity_product [share] [of]` runs every `of`-th choice from
// `share` on. Hours on a laptop; CI runs a thin slice. `parity_product recipes FIRST COUNT` takes COUNT random recipes
// of all features from seed FIRST on instead.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "parity/layout_space.h"
#include "parity/parity.h"

using namespace trireme::parity;  // NOLINT: a test program

namespace {

class Scoreboard {
 public:
  void Judge(const std::string& name, const trireme::RunConfig& config, int steps) {
    const Outcome one = Train({.config = OneRank(config), .steps = steps});
    const Outcome many = Train({.config = config, .steps = steps});
    const std::vector<std::string> differences = Differences(one, many, 1e-5);
    auto& [passes, failures] = score_[config.layout.schedule];
    ++(differences.empty() ? passes : failures);
    failed_ += differences.empty() ? 0 : 1;
    if (!differences.empty()) {
      std::printf("%s: %s\n", name.c_str(), differences.front().c_str());
    }
  }
  // An exit status.
  int Print() const {
    std::printf("%-14s %8s %8s\n", "schedule", "passed", "failed");
    for (const auto& [name, counts] : score_) {
      std::printf("%-14s %8d %8d\n", name.c_str(), counts.first, counts.second);
    }
    return failed_ == 0 ? 0 : 1;
  }

 private:
  std::map<std::string, std::pair<int, int>> score_;  // by schedule: passed, failed
  int failed_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Scoreboard board;
  if (argc == 4 && std::string(argv[1]) == "recipes") {
    const int first = std::atoi(argv[2]);
    for (int seed = first; seed < first + std::atoi(argv[3]); ++seed) {
      const trireme::RunConfig config = RandomRecipe(static_cast<std::uint64_t>(seed));
      board.Judge("recipe " + std::to_string(seed), config, static_cast<int>(config.train.steps));
    }
    return board.Print();
  }
  const int share = argc > 1 ? std::atoi(argv[1]) : 0;
  const int of = argc > 2 ? std::atoi(argv[2]) : 1;
  const std::vector<Choice> all = AllChoices();
  for (std::size_t i = static_cast<std::size_t>(share); i < all.size(); i += static_cast<std::size_t>(of)) {
    board.Judge(NameOf(all[i]), ConfigOf(all[i]), LawSteps());
  }
  return board.Print();
}
