// The page of `trireme plan --page`: the planner itself where it is built in, else a page that holds the answers to the
// question of the command line.
#pragma once

#include <map>
#include <string>

#include "planner/queries/plan_answer.h"

namespace CLI {
class App;
}

namespace trireme {

// The options that were given, by name; those without a value are "true".
std::map<std::string, std::string> GivenOptions(const CLI::App& command);
// The page with the answers.
std::string AnswersPageFor(const PlanSubject& subject, const PlanOptions& options,
                           const std::map<std::string, std::string>& given);

}  // namespace trireme
