#include "report/diagnose.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "operate/flight_report.h"
#include "operate/stragglers.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kColumns = 64;

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

std::string TimelineText(const FlightReport& report) {
  constexpr std::int64_t kLeast = 1'000'000;
  constexpr std::size_t kMostRows = 64;
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
  for (std::size_t i = 0; i < std::min(report.ranks.size(), kMostRows); ++i) {
    text += fmt::format("  rank {:<5} |{}|\n", report.ranks[i].rank, TimelineRow(report.ranks[i], from, until));
  }
  return text;
}

std::string RankLines(const FlightReport& report) {
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

std::string GroupLines(const FlightReport& report) {
  std::string text;
  for (std::size_t i = 0; i < report.ranks.size(); ++i) {
    std::string groups;
    for (const LedgerGroup& group : report.ranks[i].groups) {
      groups += fmt::format("{}{} {}{}", groups.empty() ? "" : ", ", group.name, group.started,
                            group.ended < group.started ? " (in it)" : "");
    }
    text += fmt::format("  rank {:<5} {}\n", report.ranks[i].rank, groups.empty() ? "none" : groups);
  }
  return text;
}

std::string LatenessLines(const FlightReport& report) {
  constexpr double kLeastShare = 0.05;
  std::string text;
  for (const Straggler& each : FindStragglers(report.ranks, kLeastShare)) {
    text += "  " + each.text + "\n";
  }
  return text;
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
  result.text = report.headline + "\n";
  for (const std::string& why : report.unreadable) {
    result.text += "not read: " + why + "\n";
  }
  if (!report.missing.empty()) {
    result.text += fmt::format("no ledger of rank {}\n", JoinRanks(report.missing));
  }
  if (!report.ranks.empty()) {
    result.text += "\nwhere each rank was:\n" + RankLines(report);
    result.text += "\nlast collective begun, by group:\n" + GroupLines(report);
    const std::string late = LatenessLines(report);
    result.text += late.empty() ? "" : "\nstragglers:\n" + late;
    result.text += "\n" + TimelineText(report);
  }
  for (const std::string& death : deaths) {
    result.text += fmt::format("an earlier death: trireme diagnose {}\n", death);
  }
  return result;
}

}  // namespace trireme
