// Multiple-choice questions scored as lm-eval does: the answer whose tokens are likeliest after the question counts, as
// they stand (accuracy) and per byte of the answer (normalised accuracy).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/tokenizer.h"
#include "infer/inference_model.h"

namespace trireme {

struct Question {
  std::string context;
  std::vector<std::string> choices;
  std::size_t gold = 0;  // the right one
};

// One JSON object a line. The context is the field "context", "query", "question", "ctx" or "prompt"; the answers
// "choices" or "endings", a list of texts; the right one "gold", "label" or "answer", as its number, its letter or its
// text. Empty lines are skipped. An Error names the file, the line and the field.
std::vector<Question> ReadQuestions(const std::string& path);
Question ParseQuestion(std::string_view line, const std::string& origin);

struct ChoiceReport {
  std::int64_t questions = 0;
  double accuracy = 0;
  double normalised_accuracy = 0;  // by log-likelihood per byte
  double gold_loss = 0;            // nats a token of the right answers
  // Standard error of either.
  double standard_error(double share) const;
};

// A context longer than the model's sequence loses its beginning. Collective over the model's group; needs
// model.options().rows of a whole sequence at least.
ChoiceReport EvaluateChoices(InferenceModel& model, const std::vector<Question>& questions, const Tokenizer& tokenizer);

}  // namespace trireme
