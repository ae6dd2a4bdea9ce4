// What runs are called side by side: the names of their folders, or, of a study's (`trireme bench`), the settings of
// their cases instead of the digests that name the folders.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// A name for each folder, in order. Equal names of different folders become their paths.
std::vector<std::string> NamesOfRuns(const std::vector<std::string>& folders);

}  // namespace trireme
