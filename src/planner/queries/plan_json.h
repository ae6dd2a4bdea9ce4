// The planner's answers as JSON, for programs. Bytes are GiB, times seconds unless a name says days or hours.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "planner/queries/deadline.h"
#include "planner/queries/phases.h"
#include "planner/queries/plan_text.h"
#include "planner/queries/ramp.h"
#include "planner/queries/shapes.h"

namespace trireme {

// Days, device-hours and energy of `tokens`.
nlohmann::json DaysJson(const SearchRequest& request, const Candidate& candidate, double tokens);
nlohmann::json ToJsonValue(const LeastDevices& least);
nlohmann::json RankingJson(const SearchResult& result, const SearchRequest& request, const RankingOptions& options);
nlohmann::json ToJsonValue(const Candidate& candidate);
nlohmann::json ToJsonValue(const RampPlan& plan);
nlohmann::json ToJsonValue(const TrainingTime& time);
nlohmann::json ToJsonValue(const DeadlineAnswer& answer);
nlohmann::json ToJsonValue(const std::vector<ShapeProposal>& proposals);
nlohmann::json ToJsonValue(const LongestSequence& longest);
nlohmann::json ToJsonValue(const std::vector<PhasePlan>& plans);

}  // namespace trireme
