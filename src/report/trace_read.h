// Timelines of a Chrome/Perfetto trace that this program wrote (planner/queries/trace_file.h): by process the tracks of
// computation, for the report's page.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct TraceTrack {
  std::string name;
  std::vector<double> start;  // seconds from the timeline's begin
  std::vector<double> length;
  std::vector<std::uint8_t> kind;  // index into TraceTimeline::kinds
  std::vector<std::int32_t> micro_batch;
};

struct TraceTimeline {
  std::string source;  // the process's name: "measured, step 12", "predicted"
  std::vector<std::string> kinds;
  std::vector<TraceTrack> tracks;
};

// None where the file is no such trace.
std::vector<TraceTimeline> ReadTrace(const std::string& path);

}  // namespace trireme
