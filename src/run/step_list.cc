#include "run/step_list.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error.h"

namespace trireme {
namespace {

std::string_view WithoutSpaces(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// A step, or -1.
std::int64_t StepOf(std::string_view text) {
  text = WithoutSpaces(text);
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  return error == std::errc() && end == text.data() + text.size() && step > 0 ? step : -1;
}

}  // namespace

StepList::StepList(const std::string& text) {
  std::string_view rest = text;
  while (!WithoutSpaces(rest).empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    const std::size_t dash = part.find('-');
    const Range range{.first = StepOf(part.substr(0, dash)),
                      .last = StepOf(dash == std::string_view::npos ? part : part.substr(dash + 1))};
    Require(range.first > 0 && range.last >= range.first,
            "'{}' in '{}' is neither a step nor a range such as 1200-1250", WithoutSpaces(part), text);
    ranges_.push_back(range);
  }
}

bool StepList::Has(std::int64_t step) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const Range& range) { return step >= range.first && step <= range.last; });
}

}  // namespace trireme
