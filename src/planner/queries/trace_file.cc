#include "planner/queries/trace_file.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace trireme {
namespace {

std::string Quoted(const std::string& text) { return JsonText(nlohmann::json(text), {.ascii = true}); }

}  // namespace

void TraceFile::Add(const std::string& event) { events_ += (events_.empty() ? "" : ",\n") + event; }

int TraceFile::AddProcess(const std::string& name) {
  const int process = ++processes_;
  Add(fmt::format(R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":{}}}}})", process, Quoted(name)));
  Add(fmt::format(R"({{"name":"process_sort_index","ph":"M","pid":{0},"args":{{"sort_index":{0}}}}})", process));
  return process;
}

int TraceFile::AddTrack(int process, const std::string& name) {
  const int track = ++tracks_;
  process_of_track_[track] = process;
  Add(fmt::format(R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", process, track,
                  Quoted(name)));
  Add(fmt::format(R"({{"name":"thread_sort_index","ph":"M","pid":{},"tid":{},"args":{{"sort_index":{}}}}})", process,
                  track, track));
  return track;
}

void TraceFile::AddSlice(const TraceSlice& slice) {
  // Whole nanoseconds at both ends: a slice never reaches into the one that begins where it ends.
  const double start = std::round(slice.start * 1e9) * 1e-3;
  const double end = std::round((slice.start + slice.seconds) * 1e9) * 1e-3;
  const std::string arguments =
      slice.micro_batch >= 0 ? fmt::format(R"(,"args":{{"micro_batch":{}}})", slice.micro_batch) : "";
  Add(fmt::format(R"({{"name":{},"cat":{},"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}{}}})", Quoted(slice.name),
                  Quoted(slice.kind), ProcessOf(slice.track), slice.track, start, end - start, arguments));
}

void TraceFile::AddFlow(int from, double at, int to, double until) {
  const int flow = ++flows_;
  Add(fmt::format(R"({{"name":"message","cat":"message","ph":"s","id":{},"pid":{},"tid":{},"ts":{:.3f}}})", flow,
                  ProcessOf(from), from, at * 1e6));
  Add(fmt::format(R"({{"name":"message","cat":"message","ph":"f","bp":"e","id":{},"pid":{},"tid":{},"ts":{:.3f}}})",
                  flow, ProcessOf(to), to, until * 1e6));
}

void TraceFile::AddCounter(int process, const std::string& name, double at,
                           const std::map<std::string, double>& values) {
  Add(fmt::format(R"({{"name":{},"ph":"C","pid":{},"ts":{:.3f},"args":{}}})", Quoted(name), process, at * 1e6,
                  JsonText(nlohmann::json(values))));
}

std::string TraceFile::ToJson() const { return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + events_ + "\n]}\n"; }

}  // namespace trireme
