#include "checkpoint/format/rank_choices.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/format/bounded_json.h"

namespace trireme {

std::string FormatRankChoices(const std::vector<std::string>& by_rank) {
  return by_rank.size() == 1 ? by_rank.front() : JsonText(nlohmann::json(by_rank), {.bad_utf8 = BadUtf8::kRefuse});
}

std::vector<std::string> ParseRankChoices(const std::string& text, const std::string& origin) {
  if (!text.starts_with('[')) {
    return {text};
  }
  const nlohmann::json list = ParseBoundedJson(text, origin);
  Require(list.is_array() && !list.empty(), "'{}' is damaged: its device choices are no list", origin);
  std::vector<std::string> by_rank;
  for (const nlohmann::json& choices : list) {
    Require(choices.is_string(), "'{}' is damaged: its device choices are no texts", origin);
    by_rank.push_back(choices.get<std::string>());
  }
  return by_rank;
}

}  // namespace trireme
