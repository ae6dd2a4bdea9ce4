#include "report/trace_read.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/json_text.h"

namespace trireme {
namespace {

constexpr std::int64_t kLargestTrace = std::int64_t{1} << 30;

constexpr std::string_view kCommunication = " communication";

using TrackKey = std::pair<std::int64_t, std::int64_t>;  // process, track

struct Reading {
  std::map<std::int64_t, TraceTimeline> processes;
  std::map<TrackKey, TraceTrack> tracks;
};

std::string Text(const nlohmann::json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_string() ? found->get<std::string>() : "";
}
double Number(const nlohmann::json& event, const char* key, double otherwise) {
  const auto found = event.find(key);
  return found != event.end() && found->is_number() ? found->get<double>() : otherwise;
}

// Calls of a group are a kind of their own: "tensor all-reduce".
std::string KindOfSlice(const nlohmann::json& event, const std::string& track) {
  const std::string kind = Text(event, "cat");
  if (!track.ends_with(kCommunication)) {
    return kind;
  }
  const std::string name = Text(event, "name");
  const std::size_t space = name.find(' ');
  return space != std::string::npos && name.compare(space + 1, kind.size(), kind) == 0
             ? name.substr(0, space + 1) + kind
             : kind;
}

std::uint8_t KindOf(TraceTimeline& timeline, const std::string& kind) {
  auto found = std::find(timeline.kinds.begin(), timeline.kinds.end(), kind);
  if (found == timeline.kinds.end()) {
    if (timeline.kinds.size() == 255) {
      return 0;
    }
    found = timeline.kinds.insert(timeline.kinds.end(), kind);
  }
  return static_cast<std::uint8_t>(found - timeline.kinds.begin());
}

void Read(const nlohmann::json& event, Reading& reading) {
  if (!event.is_object()) {
    return;
  }
  const std::string phase = Text(event, "ph");
  const auto process = static_cast<std::int64_t>(Number(event, "pid", 0));
  const TrackKey key = {process, static_cast<std::int64_t>(Number(event, "tid", 0))};
  if (phase == "M" && event.contains("args")) {
    const std::string name = Text(event["args"], "name");
    if (Text(event, "name") == "process_name") {
      reading.processes[process].source = name;
    } else if (Text(event, "name") == "thread_name") {
      reading.tracks[key].name = name;
    }
  } else if (phase == "X") {
    TraceTrack& track = reading.tracks[key];
    track.start.push_back(Number(event, "ts", 0) * 1e-6);
    track.length.push_back(std::max(0.0, Number(event, "dur", 0)) * 1e-6);
    track.kind.push_back(KindOf(reading.processes[process], KindOfSlice(event, track.name)));
    const auto arguments = event.find("args");
    const bool given = arguments != event.end() && arguments->is_object();
    track.micro_batch.push_back(given ? static_cast<std::int32_t>(Number(*arguments, "micro_batch", -1)) : -1);
  }
}

}  // namespace

std::vector<TraceTimeline> ReadTrace(const std::string& path) {
  nlohmann::json value;
  try {
    value = ParseJsonOrDiscard(ReadWholeFile(path, kLargestTrace));
  } catch (const Error&) {
    return {};
  }
  if (!value.is_object() || !value.contains("traceEvents") || !value["traceEvents"].is_array()) {
    return {};
  }
  Reading reading;
  for (const nlohmann::json& event : value["traceEvents"]) {
    Read(event, reading);
  }
  for (auto& [key, track] : reading.tracks) {
    // A plan's messages have tracks of their own in viewers; the page shows the stages' computation.
    const bool messages = track.name.ends_with(" activations") || track.name.ends_with(" gradients");
    if (!track.start.empty() && !messages) {
      reading.processes[key.first].tracks.push_back(std::move(track));
    }
  }
  std::vector<TraceTimeline> timelines;
  for (auto& [process, timeline] : reading.processes) {
    if (!timeline.tracks.empty()) {
      timelines.push_back(std::move(timeline));
    }
  }
  return timelines;
}

}  // namespace trireme
