// How the devices of the ranks whose state a shard holds did their operations, as the one text that its header has.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// The text of one rank is its own; that of several is a list in JSON.
std::string FormatRankChoices(const std::vector<std::string>& by_rank);
// At least one entry. An Error names `origin`.
std::vector<std::string> ParseRankChoices(const std::string& text, const std::string& origin);

}  // namespace trireme
