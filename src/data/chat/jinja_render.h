// Runs the tree of a template. Templates come with downloaded models: steps and output are bounded, and nothing but the
// variables given can be read.
#pragma once

#include <cstdint>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "data/chat/jinja_tree.h"

namespace trireme::jinja {

struct Rendered {
  std::string text;
  // Bytes [first, second) that {% generation %} encloses, in order.
  std::vector<std::pair<std::size_t, std::size_t>> generated;
};

// `now` is what strftime_now tells. An Error says what the template raised or what is not covered.
Rendered Render(const Block& block, std::map<std::string, Value> variables, std::time_t now, const std::string& origin);

}  // namespace trireme::jinja
