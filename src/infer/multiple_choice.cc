#include "infer/multiple_choice.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "data/files/json_file.h"

namespace trireme {
namespace {

// The first of `names` that the object has.
const nlohmann::json& Field(const nlohmann::json& object, std::initializer_list<const char*> names,
                            const std::string& origin) {
  std::string wanted;
  for (const char* name : names) {
    if (const auto found = object.find(name); found != object.end()) {
      return *found;
    }
    wanted += fmt::format("{}'{}'", wanted.empty() ? "" : ", ", name);
  }
  Fail("{}: has none of the fields {}", origin, wanted);
}

std::size_t GoldOf(const nlohmann::json& gold, const std::vector<std::string>& choices, const std::string& origin) {
  std::size_t number = choices.size();
  if (gold.is_number_integer() && gold.get<std::int64_t>() >= 0) {
    number = gold.get<std::size_t>();
  } else if (gold.is_string()) {
    const std::string text = gold.get<std::string>();
    number = static_cast<std::size_t>(std::find(choices.begin(), choices.end(), text) - choices.begin());
    if (number == choices.size() && text.size() == 1 && text[0] >= 'A' && text[0] <= 'Z') {
      number = static_cast<std::size_t>(text[0] - 'A');
    } else if (number == choices.size() && text.size() == 1 && text[0] >= '0' && text[0] <= '9') {
      number = static_cast<std::size_t>(text[0] - '0');
    }
  }
  Require(number < choices.size(), "{}: the right answer {} is none of the {} choices (0 to {}, A to {}, or its text)",
          origin, JsonText(gold), choices.size(), choices.size() - 1,
          static_cast<char>('A' + std::min<std::size_t>(choices.size() - 1, 25)));
  return number;
}

// Sums of log-probabilities of the answers' tokens.
std::vector<double> LogLikelihoods(InferenceModel& model, std::span<const ChoiceRequest> requests) {
  std::size_t length = 0;
  for (const ChoiceRequest& request : requests) {
    length = std::max(length, request.tokens.size() - 1);
  }
  // Padding at the end changes nothing before it.
  std::vector<std::int32_t> tokens(requests.size() * length, 0);
  std::vector<std::int32_t> targets(tokens.size(), 0);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto place = static_cast<std::ptrdiff_t>(i * length);
    std::copy(requests[i].tokens.begin(), requests[i].tokens.end() - 1, tokens.begin() + place);
    std::copy(requests[i].tokens.begin() + 1, requests[i].tokens.end(), targets.begin() + place);
  }
  model.RunWhole(static_cast<std::int64_t>(requests.size()), tokens);
  const std::vector<float> losses = model.Losses(targets);
  std::vector<double> sums;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::size_t last = i * length + requests[i].tokens.size() - 1;
    double sum = 0;
    for (std::size_t at = last - requests[i].answer; at < last; ++at) {
      sum -= losses[at];
    }
    sums.push_back(sum);
  }
  return sums;
}

template <typename Score>
std::size_t Best(std::size_t count, const Score& score) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < count; ++i) {
    best = score(i) > score(best) ? i : best;
  }
  return best;
}

}  // namespace

Question ParseQuestion(std::string_view line, const std::string& origin) {
  const nlohmann::json object = ParseHostileJson(line, origin);
  Require(object.is_object(), "{}: is no JSON object", origin);
  const nlohmann::json& context = Field(object, {"context", "query", "question", "ctx", "prompt"}, origin);
  Require(context.is_string(), "{}: the question is not a text", origin);
  const nlohmann::json& choices = Field(object, {"choices", "endings"}, origin);
  Require(choices.is_array() && choices.size() >= 2 &&
              std::all_of(choices.begin(), choices.end(), [](const auto& choice) { return choice.is_string(); }),
          "{}: 'choices' is not a list of two or more texts", origin);
  Question question{.context = context.get<std::string>(), .choices = choices.get<std::vector<std::string>>()};
  for (const std::string& choice : question.choices) {
    Require(!choice.empty(), "{}: a choice is empty", origin);
  }
  question.gold = GoldOf(Field(object, {"gold", "label", "answer"}, origin), question.choices, origin);
  return question;
}

std::vector<Question> ReadQuestions(const std::string& path) {
  std::ifstream file(path);
  Require(static_cast<bool>(file), "'{}' cannot be read", path);
  std::vector<Question> questions;
  std::int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") != std::string::npos) {
      questions.push_back(ParseQuestion(line, fmt::format("{} line {}", path, number)));
    }
  }
  Require(!questions.empty(), "'{}' holds no question", path);
  return questions;
}

double ChoiceReport::standard_error(double share) const {
  return questions > 1 ? std::sqrt(share * (1 - share) / static_cast<double>(questions - 1)) : 0;
}

ChoiceRequest MakeRequest(const Question& question, const std::string& choice, const Tokenizer& tokenizer,
                          std::size_t sequence) {
  const std::size_t end = question.context.find_last_not_of(" \t\n") + 1;
  const std::string context = question.context.substr(0, end);
  std::string spaces = question.context.substr(end);
  if (spaces.empty() && !context.empty() && !choice.starts_with(' ')) {
    spaces = " ";
  }
  std::vector<std::int32_t> head = tokenizer.prefix();
  std::vector<std::int32_t> whole = head;
  if (head.empty() && context.empty()) {
    const auto start = tokenizer.end_of_text();
    head = whole = start ? std::vector<std::int32_t>{*start} : tokenizer.Encode("\n");
  }
  tokenizer.Encode(context, head);
  tokenizer.Encode(context + spaces + choice, whole);
  const std::size_t answer = whole.size() - std::min(head.size(), whole.size() - 1);
  Require(answer <= sequence, "the answer '{}' has {} tokens, more than the model's sequence of {}", choice, answer,
          sequence);
  if (whole.size() > sequence + 1) {
    whole.erase(whole.begin(), whole.end() - static_cast<std::ptrdiff_t>(sequence + 1));
  }
  return {std::move(whole), answer};
}

ChoiceReport JudgeChoices(const std::vector<Question>& questions, const std::vector<std::size_t>& answers,
                          const std::vector<double>& scores) {
  ChoiceReport report{.questions = static_cast<std::int64_t>(questions.size())};
  double right = 0;
  double right_normalised = 0;
  double gold_tokens = 0;
  std::size_t at = 0;
  for (const Question& question : questions) {
    const double* own = scores.data() + at;
    const auto per_byte = [&](std::size_t i) { return own[i] / static_cast<double>(question.choices[i].size()); };
    right += Best(question.choices.size(), [&](std::size_t i) { return own[i]; }) == question.gold ? 1 : 0;
    right_normalised += Best(question.choices.size(), per_byte) == question.gold ? 1 : 0;
    report.gold_loss -= own[question.gold];
    gold_tokens += static_cast<double>(answers[at + question.gold]);
    at += question.choices.size();
  }
  report.accuracy = right / static_cast<double>(questions.size());
  report.normalised_accuracy = right_normalised / static_cast<double>(questions.size());
  report.gold_loss /= gold_tokens;
  return report;
}

ChoiceReport EvaluateChoices(InferenceModel& model, const std::vector<Question>& questions,
                             const Tokenizer& tokenizer) {
  const auto sequence =
      static_cast<std::size_t>(std::min(model.model().sequence, model.options().rows / model.options().batch));
  std::vector<ChoiceRequest> requests;
  for (const Question& question : questions) {
    for (const std::string& choice : question.choices) {
      requests.push_back(MakeRequest(question, choice, tokenizer, sequence));
    }
  }
  std::vector<double> scores;
  const auto batch = static_cast<std::size_t>(model.options().batch);
  for (std::size_t first = 0; first < requests.size(); first += batch) {
    const std::vector<double> some =
        LogLikelihoods(model, std::span(requests).subspan(first, std::min(batch, requests.size() - first)));
    scores.insert(scores.end(), some.begin(), some.end());
  }
  std::vector<std::size_t> answers;
  for (const ChoiceRequest& request : requests) {
    answers.push_back(request.answer);
  }
  return JudgeChoices(questions, answers, scores);
}

}  // namespace trireme
