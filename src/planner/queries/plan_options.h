// Which options a question to the planner may have: none is read by some queries and ignored by others.
#pragma once

#include "planner/queries/plan_answer.h"

namespace trireme {

enum class PlanQuery : std::uint8_t {
  kRank,
  kLayout,
  kCompare,
  kPhases,
  kMaxSize,
  kShapes,
  kMaxSequence,
  kNodeSchedule,
  kCase
};

// Adam of PyTorch in separate kernels, of programs that are known by their publications.
inline constexpr const char* kTorchAdam = "torch-adam";
OptimizerKind KindOf(const std::string& optimizer);

// What a question without --compare asks for.
PlanQuery QueryOf(const PlanOptions& options);
// What a row of a table asks for. An Error where no table has a row for it.
PlanQuery CaseQueryOf(const PlanOptions& options);
// An Error that names an option which this query has no use for.
void RequireReadBy(const PlanOptions& options, PlanQuery query);
// An Error that names an option about which nothing is known of the subject's program.
void RequireKnownOf(const PlanSubject& subject, const PlanOptions& options, bool every_recipe);

}  // namespace trireme
