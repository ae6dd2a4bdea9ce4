// What it costs on average to take the first layout of a ranking, where predictions are too unsure to tell it from
// others.
#pragma once

#include <string>
#include <vector>

#include "planner/search/search.h"

namespace trireme {

struct FirstChoice {
  double expected_regret = 0;  // of the first against its best rival, relative
  int rival = 0;               // its place in the ranking; 0: none
};

// Among the first few of `ranked`, by what moves one layout's seconds alone. Nothing where the stack was calibrated at
// this site: it says how sure it is.
FirstChoice JudgeFirst(const SearchRequest& request, const std::vector<Candidate>& ranked);

// A line where the interval is wide enough to matter; else "".
std::string ToText(const FirstChoice& choice);

}  // namespace trireme
