// A Chrome/Perfetto trace (JSON) being put together: processes with tracks, slices on them, arrows between slices,
// counters. Predicted and measured timelines are both written by it. Times are seconds from the trace's begin.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace trireme {

struct TraceSlice {
  int track = 0;
  std::string name;
  std::string kind;  // "forward", "send", …: viewers colour by it
  double start = 0;
  double seconds = 0;
  int micro_batch = -1;  // -1: none
};

class TraceFile {
 public:
  // Returns the number by which the others name it.
  int AddProcess(const std::string& name);
  // Tracks are shown in the order in which they are added.
  int AddTrack(int process, const std::string& name);
  // Slices of a track must nest or follow each other.
  void AddSlice(const TraceSlice& slice);
  // An arrow from the slice of `from` that holds `at` to the one of `to` that holds `until`.
  void AddFlow(int from, double at, int to, double until);
  void AddCounter(int process, const std::string& name, double at, const std::map<std::string, double>& values);

  std::string ToJson() const;

 private:
  void Add(const std::string& event);
  int ProcessOf(int track) const { return process_of_track_.at(track); }

  std::string events_;
  int processes_ = 0;
  int tracks_ = 0;
  int flows_ = 0;
  std::map<int, int> process_of_track_;
};

}  // namespace trireme
