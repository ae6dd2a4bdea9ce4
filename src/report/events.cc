#include "report/events.h"

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/text_file.h"
#include "comm/ledger.h"
#include "report/line_file.h"

namespace trireme {

std::string EventKind(const std::string& message) {
  struct Words {
    const char* part;
    const char* kind;
  };
  static constexpr Words kWords[] = {{" spike: ", "spike"},
                                     {"not finite", "skip"},
                                     {"skipped, as", "skip"},
                                     {"went back to step", "skip"},
                                     {"slower than predicted", "slow"},
                                     {"last of its group", "straggler"},
                                     {"checkpoint of step", "save"}};
  for (const Words& words : kWords) {
    if (message.find(words.part) != std::string::npos) {
      return words.kind;
    }
  }
  return "note";
}

bool AppendEvent(const std::string& folder, const RunEvent& event) {
  const nlohmann::ordered_json row = {
      {"time", event.time}, {"step", event.step}, {"kind", event.kind}, {"text", event.text}};
  const int file = ::open((folder + "/events.jsonl").c_str(),
                          O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (file < 0) {
    return false;
  }
  const bool written = AppendLine(file, JsonText(row)) == 0;
  ::close(file);
  return written;
}

std::int64_t LastStepOf(const std::string& folder) {
  try {
    return ReadLedger(folder + "/flight/" + LedgerName(0), LedgerPart::kHead).step;
  } catch (const Error&) {
    return 0;
  }
}

std::vector<RunEvent> ReadEvents(const std::string& folder) {
  LineReader file(folder + "/events.jsonl");
  std::vector<RunEvent> events;
  for (std::string line; file.Next(line);) {
    const nlohmann::json row = ParseJsonOrDiscard(line);
    if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer()) {
      continue;
    }
    const auto text = [&](const char* key) {
      return row.contains(key) && row[key].is_string() ? row[key].get<std::string>() : std::string();
    };
    events.push_back({.time = row.contains("time") && row["time"].is_number() ? row["time"].get<double>() : 0,
                      .step = row["step"].get<std::int64_t>(),
                      .kind = text("kind"),
                      .text = text("text")});
  }
  return events;
}

}  // namespace trireme
