// What must hold of a composition. The run trains as one rank does; it goes on to the same bits under its own layout,
// and to the same weights but for rounding under another one. After a fault it finishes with the bits of the run that
// nothing happened to; what a fault cost was said.
#pragma once

#include <string>
#include <vector>

#include "compositions/composition.h"

namespace trireme::compositions {

struct Places {
  std::string program;
  std::string shim;
  std::string scratch;  // an existing folder
  bool keeps = false;   // the folders of compositions stay
};

struct Verdict {
  std::vector<std::string> wrong;  // empty: all holds
  std::string fault;               // what the fault struck, in words
  bool struck = false;             // it struck at all
};

// Writes the dataset that some compositions read.
void WriteDocuments(const std::string& folder);

Verdict Judge(const Composition& composition, const Places& places);

// A smaller composition that is wrong as well: keys take simple values one after another for as long as it stays so.
Composition Shrink(const Composition& composition, const Places& places);

}  // namespace trireme::compositions
