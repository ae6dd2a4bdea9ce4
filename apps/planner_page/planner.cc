// The planner's page calls this module of WebAssembly; web/src/planner_worker.ts is the caller.
#include <cstdlib>
#include <cstring>

#include "planner/queries/plan_question.h"

// The answer to a question of plan_question.h. The caller frees it.
extern "C" char* Answer(const char* question) {
  const std::string answer = trireme::AnswerQuestion(question);
  auto* const copy = static_cast<char*>(std::malloc(answer.size() + 1));
  std::memcpy(copy, answer.c_str(), answer.size() + 1);
  return copy;
}
