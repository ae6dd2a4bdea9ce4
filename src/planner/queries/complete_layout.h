// A layout of which a user names some keys: the others take their best values.
#pragma once

#include <string>

#include "planner/queries/layout_words.h"

namespace trireme {

struct AskedLayout {
  std::string layout;     // "": none is asked for
  bool defaults = false;  // keys that are not named have their defaults
};

struct CompletedLayout {
  ParallelLayout layout;
  int devices = 0;     // that work
  std::string chosen;  // keys that were free, as words
  std::string text;    // what was chosen, how many devices work and why; "": nothing to say
};

// Named keys win. Where no values of the free ones fit, they have their defaults and the text says so. An Error where
// the text is none of a layout.
CompletedLayout CompleteLayout(const SearchRequest& request, const AskedLayout& asked);

}  // namespace trireme
