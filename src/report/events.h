// DIR/events.jsonl: what happened in a run besides its steps, one JSON object a line: {"time", "step", "kind", "text"}.
// Kinds: start (of a process, also after a failure), save, spike, skip, slow, straggler, note. The supervisor and the
// run append to the same file; a line is one write, whole or not there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct RunEvent {
  double time = 0;  // seconds since 1970; 0: unknown
  std::int64_t step = 0;
  std::string kind;
  std::string text;
};

// The kind of a message that a run gives (TrainingObserver::Note, the supervisor's), by its words.
std::string EventKind(const std::string& message);

// Appends to FOLDER/events.jsonl. The file is a record for people, which costs no run: false when it cannot be written.
bool AppendEvent(const std::string& folder, const RunEvent& event);
// The step that the run's first rank is at, by its ledger; 0: unknown.
std::int64_t LastStepOf(const std::string& folder);
// The events of a run, oldest first; lines that are no event are left out; none when there is no file.
std::vector<RunEvent> ReadEvents(const std::string& folder);

}  // namespace trireme
