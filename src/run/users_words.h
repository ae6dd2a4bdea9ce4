// What users of other programs call the keys of a recipe: for suggestions in errors, never read as a key.
#pragma once

#include <string>

namespace trireme {

// The key that "lr", "n_layer", "tp" or "per-device-train-batch-size" means, by its last word and whatever the case;
// "" for a word that is not known.
std::string KeyOfUsersWord(const std::string& word);
// For a key that other programs have and this one leaves out: ": why, and what to take instead"; "" for others.
std::string ReasonAgainst(const std::string& word);
// The table of a recipe that "parallel" or "training" means; "" likewise.
std::string TableOfUsersWord(const std::string& word);

}  // namespace trireme
