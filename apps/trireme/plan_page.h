// The page of `trireme plan --page`: the planner itself where it is built in, else a page that holds the answers to the
// question of the command line.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "planner/queries/plan_answer.h"

namespace CLI {
class App;
}

namespace trireme {

// The options that were given, by name; those without a value are "true".
std::map<std::string, std::string> GivenOptions(const CLI::App& command);
// The planner's page, which opens at the question of these options unless its address holds another one.
std::string PageOpenedAt(std::string_view page, const std::map<std::string, std::string>& given);
// Those of the options that the planner's page has no field for: "--gpus, --layout"; "" where it has all.
std::string LeftOutOfPage(const std::map<std::string, std::string>& given);
// The page with the answers.
std::string AnswersPageFor(const PlanSubject& subject, const PlanOptions& options,
                           const std::map<std::string, std::string>& given);

}  // namespace trireme
