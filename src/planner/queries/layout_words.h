// A layout as text: how users write one, how the planner prints it, and which keys of it they name.
#pragma once

#include <set>
#include <string>

#include "planner/search/search.h"

namespace trireme {

// "tp=4 pp=12 dp=8 mbs=2 zero=1 schedule=1f1b chunks=1 recompute=full sp partition=balanced offload=none": any order,
// commas or spaces, each once; or as NamedLayout and ParallelLayout::ToString() write it: "tp4 pp12 dp8 zero1 1f1b mbs2
// balanced". What is not given is as in `base`. An Error names the nearest known word.
ParallelLayout ParseLayout(const std::string& text, const ParallelLayout& base);
// Parses it for one model: where the text says nothing of the partition and layers do not divide, they are spread as
// evenly as they go.
ParallelLayout ParseLayoutOf(const ModelConfig& model, const std::string& text);
// The words that such a text gives, without their values.
std::set<std::string> ParseLayoutWords(const std::string& text);

// Every key that a search chooses, defaults too: pasted into --layout it is the same layout, whatever a search would
// choose. offload_activations is named where it is on: a search keeps them on the device where they fit.
std::string NamedLayout(const ParallelLayout& layout);
// Only those of its keys whose words are given.
std::string NamedKeys(const ParallelLayout& layout, const std::set<std::string>& words);

// Keys that `text` names are held at its values, within the request's limits or not; the others stay free.
void HoldKeys(const std::string& text, SearchRequest& request);
// Words of the keys that a search of the request may choose and `text` does not name.
std::set<std::string> FreeKeys(const SearchRequest& request, const std::string& text);

}  // namespace trireme
