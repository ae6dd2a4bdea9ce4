#include "apps/trireme/plan_page.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/count_text.h"
#include "base/error.h"
#include "measure/machine.h"
#include "planner/queries/answer_json.h"
#include "report/report_page.h"

namespace trireme {
namespace {

// Options that the page has a field for, as its address names them (web/src/planner_state.ts).
const std::map<std::string, std::string>& WordsOfPage() {
  static const std::map<std::string, std::string> kWords = {
      {"model", "model"},         {"cluster", "cluster"}, {"stack", "stack"},       {"nodes", "nodes"},
      {"global-batch", "batch"},  {"fix", "fix"},         {"sequence", "sequence"}, {"dtype", "dtype"},
      {"optimizer", "optimizer"}, {"tokens", "tokens"}};
  return kWords;
}

std::string PercentEncoded(const std::string& text) {
  std::string encoded;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool plain = std::isalnum(byte) != 0 || letter == '-' || letter == '_' || letter == '.';
    encoded += plain ? std::string(1, letter) : fmt::format("%{:02X}", byte);
  }
  return encoded;
}

}  // namespace

std::string PageOpenedAt(std::string_view page, const std::map<std::string, std::string>& given) {
  std::string address;
  for (const auto& [option, word] : WordsOfPage()) {
    const auto found = given.find(option);
    if (found != given.end()) {
      const bool number = word == "nodes" || word == "batch" || word == "sequence" || word == "tokens";
      address += (address.empty() ? "" : "&") + word + "=" +
                 PercentEncoded(number ? WithoutUnit(found->second) : found->second);
    }
  }
  const std::size_t title = page.find("<title>");
  if (address.empty() || title == std::string_view::npos) {
    return std::string(page);
  }
  return std::string(page.substr(0, title)) +
         fmt::format("<script>if (location.hash.length < 2) history.replaceState(null, '', '#{}');</script>\n    ",
                     address) +
         std::string(page.substr(title));
}

std::string LeftOutOfPage(const std::map<std::string, std::string>& given) {
  std::string left;
  for (const auto& [option, value] : given) {
    const bool of_command =
        option == "page" || option == "json" || option == "rows" || option == "threads" || option.ends_with("-folder");
    if (!of_command && !WordsOfPage().contains(option)) {
      left += (left.empty() ? "--" : ", --") + option;
    }
  }
  return left;
}

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
