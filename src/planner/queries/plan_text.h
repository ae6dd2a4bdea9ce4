// A plan for people: the answer first, then the layouts behind it. plan_json.h has it for programs.
#pragma once

#include <cstdint>
#include <string>

#include "planner/queries/least_devices.h"
#include "planner/queries/training_time.h"
#include "planner/search/search.h"

namespace trireme {

struct RankingOptions {
  double tokens = 0;         // of the whole training; 0: days are left out
  double deadline_days = 0;  // above 0: says which miss it
  double device_hours = 0;   // allocation; above 0: says which exceed it
  int rows = 0;              // 0: as many of the first eight as fit 30 lines
};

// Lines of at most 100 columns: the recommended layout and why, the next ones, and what was refused. Requires a layout
// that fits.
std::string RankingText(const SearchResult& result, const SearchRequest& request, const RankingOptions& options);
// Why no layout fits, and the allocation that would do, where one was looked for.
std::string NothingFitsText(const SearchResult& result, const SearchRequest& request, const LeastDevices& least);

// What the request asks for, in a line.
std::string RequestText(const SearchRequest& request);
// Seconds, tokens/s and MFU, memory; with tokens above 0 days, device-hours and energy. A line each, indented.
std::string CandidateText(const Candidate& candidate, const SearchRequest& request, double tokens);

// "12,096"
std::string Grouped(std::int64_t count);
// `text` after `lead` in lines of at most 100 columns, broken at spaces, the later ones as far in as `lead` is wide.
std::string Wrapped(const std::string& lead, const std::string& text);

// Days of `tokens` at a candidate's speed, with checkpoints and restarts.
TrainingTime TimeOfTraining(const SearchRequest& request, const Candidate& candidate, double tokens);

}  // namespace trireme
