#include "report/diagnose.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_text.h"
#include "operate/flight_report.h"
#include "operate/stragglers.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kColumns = 64;
// Up to here every rank has a line; of more, ranks that are alike share one, and what is left out is counted.
constexpr std::size_t kMostSingle = 16;
constexpr std::size_t kMostLines = 10;

std::string FolderWithLedgers(const std::string& path) {
  for (const std::string& folder : {path + "/flight", path}) {
    if (!ListLedgers(folder).empty()) {
      return folder;
    }
  }
  Fail("'{}' holds no flight records: neither flight/rank-*.ledger nor rank-*.ledger is there", path);
}

std::vector<std::string> EarlierDeaths(const std::string& folder) {
  std::vector<std::string> deaths;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    if (entry.path().filename().string().starts_with("death-")) {
      deaths.push_back(entry.path().string());
    }
  }
  std::sort(deaths.begin(), deaths.end());
  return deaths;
}

bool IsGone(const RankRecord& record) { return ProcessStart(record.pid) != record.process_start; }

std::string EndOf(const RankRecord& record) {
  switch (record.end) {
    case LedgerEnd::kFinished:
      return "finished";
    case LedgerEnd::kStopped:
      return "stopped on request";
    case LedgerEnd::kFailed:
      return "failed: " + record.message;
    case LedgerEnd::kRunning:
      break;
  }
  // Another machine's processes cannot be seen from here.
  return IsGone(record) ? fmt::format("process {} on {} is gone without a word", record.pid, record.host)
                        : fmt::format("process {} on {} is there", record.pid, record.host);
}

// One row a rank over the last seconds of the run: '#' between collectives, '.' inside one, ' ' no record.
std::string TimelineRow(const RankRecord& record, std::int64_t from, std::int64_t until) {
  std::string row(kColumns, ' ');
  const std::int64_t oldest = record.calls.empty() ? record.phase_ns : record.calls.front().started_ns;
  const double scale = static_cast<double>(kColumns) / static_cast<double>(until - from);
  const auto column = [&](std::int64_t time) {
    return static_cast<int>(std::clamp(static_cast<double>(time - from) * scale, 0.0, kColumns - 1.0));
  };
  const auto paint = [&](std::int64_t first, std::int64_t last, char with) {
    if (last >= from && first <= until && first <= last) {
      std::fill(row.begin() + column(first), row.begin() + column(last) + 1, with);
    }
  };
  const bool running = record.end == LedgerEnd::kRunning;
  paint(oldest, running ? until : record.end_ns, '#');
  for (const LedgerCall& call : record.calls) {
    const std::int64_t last = call.ended_ns != 0 ? call.ended_ns : running ? until : record.end_ns;
    // A collective shorter than a column leaves it to the computing around it.
    if (column(last) > column(call.started_ns) || call.ended_ns == 0) {
      paint(call.started_ns, last, '.');
    }
  }
  return row;
}

// Ranks of the timeline: all, or of many the suspects, the first and last, and the first of each stage.
std::vector<const RankRecord*> SampleOf(const FlightReport& report) {
  std::set<int> ranks;
  const auto add = [&](int rank) {
    if (ranks.size() < kMostLines && report.Find(rank) != nullptr) {
      ranks.insert(rank);
    }
  };
  const ParallelLayout& layout = report.ranks.front().layout;
  if (report.ranks.size() > kMostSingle) {
    add(0);
    add(layout.ranks() - 1);
    std::for_each_n(report.suspects.begin(), std::min(report.suspects.size(), kMostLines / 2), add);
    for (const int rank : ProcessGrid(layout).RanksAlong(Axis::kPipeline, 0)) {
      add(rank);
    }
  }
  std::vector<const RankRecord*> sample;
  for (const RankRecord& record : report.ranks) {
    if (report.ranks.size() <= kMostSingle || ranks.count(record.rank) > 0) {
      sample.push_back(&record);
    }
  }
  return sample;
}

std::string TimelineText(const FlightReport& report) {
  constexpr std::int64_t kLeast = 1'000'000;
  std::int64_t until = 0;
  std::int64_t from = INT64_MAX;
  for (const RankRecord& record : report.ranks) {
    until = std::max({until, record.heartbeat_ns, record.end_ns});
  }
  // Twice the silence of the rank that fell silent first, so that it shows beside what came before.
  for (const RankRecord& record : report.ranks) {
    from = std::min(from, until - 2 * (until - record.heartbeat_ns));
    from = std::min(from, until - 2 * (until - record.phase_ns));
  }
  from = std::min(from, until - kLeast);
  std::string text =
      fmt::format("timeline, {} to {} (# between collectives, . inside one):\n", ClockTime(from), ClockTime(until));
  for (const RankRecord* record : SampleOf(report)) {
    text += fmt::format("  rank {:<5} |{}|\n", record->rank, TimelineRow(*record, from, until));
  }
  return text;
}

// As EndOf, without the number of the process, which differs.
std::string EndOfMany(const RankRecord& record) {
  return record.end == LedgerEnd::kRunning ? IsGone(record) ? "process is gone without a word" : "process is there"
                                           : EndOf(record);
}

// What a rank's line says, but for its times and its number.
std::string PlaceOf(const FlightReport& report, std::size_t place) {
  const RankRecord& record = report.ranks[place];
  std::string text = DescribePlace(record);
  if (!report.waits_for[place].empty()) {
    text += fmt::format(", waits for rank {}", JoinRanks(report.waits_for[place]));
  }
  return text + "; " + EndOfMany(record);
}

std::string SingleLines(const FlightReport& report) {
  std::string text;
  for (std::size_t i = 0; i < report.ranks.size(); ++i) {
    const RankRecord& record = report.ranks[i];
    text += fmt::format("  rank {:<5} step {}, phase '{}' since {}, {}", record.rank, record.step, record.phase,
                        ClockTime(record.phase_ns), DescribePlace(record));
    if (const LedgerCall* call = record.InCall()) {
      text += fmt::format(" since {}", ClockTime(call->started_ns));
    }
    if (!report.waits_for[i].empty()) {
      text += fmt::format(", waits for rank {}", JoinRanks(report.waits_for[i]));
    }
    text += fmt::format("; {}\n", EndOf(record));
  }
  return text;
}

// Ranks that are in the same place, and since when the first of them is.
struct Alike {
  std::vector<int> ranks;
  std::int64_t since_ns = INT64_MAX;
};

// A line for ranks that are alike, the fewest first: outliers are among them.
std::string LinesOf(const std::map<std::string, Alike>& classes) {
  std::vector<const std::pair<const std::string, Alike>*> ordered;
  for (const auto& each : classes) {
    ordered.push_back(&each);
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto* a, const auto* b) { return a->second.ranks.size() < b->second.ranks.size(); });
  std::string text;
  std::size_t left_out = 0;
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    const auto& [what, alike] = *ordered[i];
    const bool last = i + 1 == ordered.size();  // where most are
    if (i + 1 >= kMostLines && !last) {
      left_out += alike.ranks.size();
      continue;
    }
    if (left_out > 0) {
      text += fmt::format("  {} ranks in {} other places\n", left_out, ordered.size() - kMostLines);
    }
    const std::string since = alike.since_ns == INT64_MAX ? "" : fmt::format(", since {}", ClockTime(alike.since_ns));
    text += fmt::format("  {} {}{}: {}{}\n", alike.ranks.size() == 1 ? "rank" : "ranks", RankRanges(alike.ranks),
                        alike.ranks.size() == 1 ? "" : fmt::format(" ({})", alike.ranks.size()), what, since);
  }
  return text;
}

std::string RankLines(const FlightReport& report) {
  if (report.ranks.size() <= kMostSingle) {
    return SingleLines(report);
  }
  // Ranks of different groups wait for different ranks: these count only where few kinds of places are left.
  std::map<std::string, Alike> classes;
  for (const bool with_waits : {true, false}) {
    classes.clear();
    for (std::size_t i = 0; i < report.ranks.size(); ++i) {
      const RankRecord& record = report.ranks[i];
      const LedgerCall* const call = record.InCall();
      const std::string where =
          with_waits || call == nullptr
              ? PlaceOf(report, i)
              : fmt::format("in {} of group '{}'{}; {}", Name(call->call.kind), call->group,
                            report.waits_for[i].empty() ? "" : ", waits for ranks of its group", EndOfMany(record));
      Alike& alike = classes[fmt::format("step {}, phase '{}', {}", record.step, record.phase, where)];
      alike.ranks.push_back(record.rank);
      alike.since_ns = std::min(alike.since_ns, call == nullptr ? record.phase_ns : call->started_ns);
    }
    if (classes.size() <= kMostLines) {
      break;
    }
  }
  return LinesOf(classes);
}

std::string GroupText(const LedgerGroup& group) {
  return fmt::format("{} {}{}", group.name, group.started, group.ended < group.started ? " (in it)" : "");
}

std::string GroupLines(const FlightReport& report) {
  if (report.ranks.size() > kMostSingle) {
    std::map<std::string, Alike> classes;
    for (const RankRecord& record : report.ranks) {
      std::string groups;
      for (const LedgerGroup& group : record.groups) {
        const bool counts = group.name != "pipeline";  // messages, of which every stage has its own number
        groups += counts ? fmt::format("{}{}", groups.empty() ? "" : ", ", GroupText(group)) : "";
      }
      classes[groups.empty() ? "none" : groups].ranks.push_back(record.rank);
    }
    return LinesOf(classes);
  }
  std::string text;
  for (const RankRecord& record : report.ranks) {
    std::string groups;
    for (const LedgerGroup& group : record.groups) {
      groups += fmt::format("{}{}", groups.empty() ? "" : ", ", GroupText(group));
    }
    text += fmt::format("  rank {:<5} {}\n", record.rank, groups.empty() ? "none" : groups);
  }
  return text;
}

std::string LatenessLines(const FlightReport& report) {
  constexpr double kLeastShare = 0.05;
  std::string text;
  const std::vector<Straggler> found = FindStragglers(report.ranks, kLeastShare);  // the costliest first
  for (std::size_t i = 0; i < std::min(found.size(), kMostLines); ++i) {
    text += "  " + found[i].text + "\n";
  }
  return found.size() > kMostLines ? fmt::format("{}  and {} more\n", text, found.size() - kMostLines) : text;
}

Json ToJson(const FlightReport& report, std::size_t place) {
  const RankRecord& record = report.ranks[place];
  static constexpr const char* kEnds[] = {"running", "finished", "stopped", "failed"};
  Json rank = {{"rank", record.rank},
               {"step", record.step},
               {"phase", record.phase},
               {"phase_since_ns", record.phase_ns},
               {"heartbeat_ns", record.heartbeat_ns},
               {"end", kEnds[static_cast<int>(record.end)]},
               {"process", record.pid},
               {"process_gone", IsGone(record)},
               {"host", record.host},
               {"waits_for", report.waits_for[place]},
               {"torn_records", record.torn}};
  if (!record.message.empty()) {
    rank["message"] = record.message;
  }
  if (const LedgerCall* call = record.InCall()) {
    rank["collective"] = {{"group", call->group},
                          {"sequence", call->sequence},
                          {"call", Describe(call->call)},
                          {"peer", call->call.peer},
                          {"since_ns", call->started_ns}};
  }
  for (const LedgerGroup& group : record.groups) {
    rank["groups"][group.name] = {{"started", group.started}, {"ended", group.ended}};
  }
  return rank;
}

std::string JsonOf(const FlightReport& report, const std::string& folder, const std::vector<std::string>& deaths) {
  Json json = {{"folder", folder},
               {"headline", report.headline},
               {"step", report.step()},
               {"suspects", report.suspects},
               {"deadlock", report.deadlock},
               {"missing", report.missing},
               {"unreadable", report.unreadable},
               {"earlier_deaths", deaths},
               {"ranks", Json::array()}};
  for (std::size_t i = 0; i < report.ranks.size(); ++i) {
    json["ranks"].push_back(ToJson(report, i));
  }
  // Names in the files may hold bytes that are no UTF-8.
  return JsonText(json, {.indent = 2});
}

}  // namespace

std::string DescribeFlight(const FlightReport& report) {
  std::string text = report.headline + "\n";
  for (std::size_t i = 0; i < std::min(report.unreadable.size(), kMostLines); ++i) {
    text += "not read: " + report.unreadable[i] + "\n";
  }
  if (report.unreadable.size() > kMostLines) {
    text += fmt::format("not read: {} more\n", report.unreadable.size() - kMostLines);
  }
  if (!report.missing.empty()) {
    text += fmt::format("no ledger of rank {}\n", RankRanges(report.missing));
  }
  if (!report.ranks.empty()) {
    text += "\nwhere each rank was:\n" + RankLines(report);
    text += "\nlast collective begun, by group:\n" + GroupLines(report);
    const std::string late = LatenessLines(report);
    text += late.empty() ? "" : "\nstragglers:\n" + late;
    text += "\n" + TimelineText(report);
  }
  return text;
}

Diagnosis Diagnose(const std::string& path) {
  const std::string folder = FolderWithLedgers(path);
  const FlightReport report = ReadFlight(folder);
  const std::vector<std::string> deaths = EarlierDeaths(folder);
  Diagnosis result;
  result.status = std::all_of(report.ranks.begin(), report.ranks.end(),
                              [](const RankRecord& record) {
                                return record.end == LedgerEnd::kFinished || record.end == LedgerEnd::kStopped;
                              }) &&
                          report.missing.empty() && !report.ranks.empty()
                      ? 0
                      : 1;
  result.json = JsonOf(report, folder, deaths);
  result.text = DescribeFlight(report);
  for (const std::string& death : deaths) {
    result.text += fmt::format("an earlier death: trireme diagnose {}\n", death);
  }
  return result;
}

}  // namespace trireme
