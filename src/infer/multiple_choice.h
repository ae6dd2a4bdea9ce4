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

// One answer of one question, ready for the model.
struct ChoiceRequest {
  std::vector<std::int32_t> tokens;  // inputs and the last target; `sequence` inputs at most
  std::size_t answer = 0;            // tokens at the end that are scored
};
// The answer's tokens are those by which the whole is longer than the context, as lm-eval has it: a token may join the
// end of the context and the answer's first letters. Spaces at the end of the context belong to the answer.
ChoiceRequest MakeRequest(const Question& question, const std::string& choice, const Tokenizer& tokenizer,
                          std::size_t sequence);

struct ChoiceReport {
  std::int64_t questions = 0;
  double accuracy = 0;
  double normalised_accuracy = 0;  // by log-likelihood per byte
  double gold_loss = 0;            // nats a token of the right answers
  // Standard error of either.
  double standard_error(double share) const;
};

// For each choice of each question, in order: the tokens that are scored, and the sum of their log-probabilities.
ChoiceReport JudgeChoices(const std::vector<Question>& questions, const std::vector<std::size_t>& answers,
                          const std::vector<double>& scores);

// A context longer than the model's sequence loses its beginning. Collective over the model's group; needs
// model.options().rows of a whole sequence at least.
ChoiceReport EvaluateChoices(InferenceModel& model, const std::vector<Question>& questions, const Tokenizer& tokenizer);

}  // namespace trireme
