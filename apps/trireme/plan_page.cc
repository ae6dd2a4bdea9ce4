#include "apps/trireme/plan_page.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "measure/machine.h"
#include "planner/queries/answer_json.h"
#include "report/report_page.h"

namespace trireme {

std::map<std::string, std::string> GivenOptions(const CLI::App& command) {
  std::map<std::string, std::string> given;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() > 0 && !option->get_lnames().empty()) {
      std::string& text = given[option->get_lnames().front()];
      for (const std::string& result : option->results()) {
        text += (text.empty() ? "" : " ") + result;
      }
    }
  }
  return given;
}

std::string AnswersPageFor(const PlanSubject& subject, const PlanOptions& options,
                           const std::map<std::string, std::string>& given) {
  Require(!options.SearchesShapes() && !options.max_sequence && options.phases.empty() && options.ramp.empty() &&
              options.sequences.empty() && subject.compared.empty() && options.layout.empty(),
          "--page without the planner in it holds a ranking of layouts: ask for shapes, phases, ramps, lengths, "
          "comparisons or one layout without --page");
  std::map<std::string, std::string> shown = given;
  for (const char* const name : {"page", "answers", "json", "rows", "threads"}) {
    shown.erase(name);
  }
  nlohmann::ordered_json page = {{"program", "trireme " + ProgramVersion()}, {"options", shown}};
  page["answers"] = nlohmann::ordered_json(PageAnswers(subject, options));
  return AnswersHtml(page);
}

}  // namespace trireme
