#include "report/report_document.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "base/json_text.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

std::string Base64(std::span<const std::byte> bytes) {
  static constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t here = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      word = word << 8 | (k < here ? std::to_integer<std::uint32_t>(bytes[i + k]) : 0);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += k <= here ? kLetters[word >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

// Little-endian, as base/platform.h requires of the machine and browsers have.
template <typename To, typename From>
std::string Encoded(const std::vector<From>& values, const std::vector<std::size_t>* rows = nullptr) {
  std::vector<To> kept;
  if (rows == nullptr) {
    kept.assign(values.begin(), values.end());
  } else {
    kept.reserve(rows->size());
    for (const std::size_t row : *rows) {
      kept.push_back(static_cast<To>(values[row]));
    }
  }
  return Base64(std::as_bytes(std::span(kept)));
}

double Finite(double value) { return std::isfinite(value) ? value : 0; }

Json OptionalNumber(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json ToJson(const TraceTimeline& timeline) {
  Json tracks = Json::array();
  for (const TraceTrack& track : timeline.tracks) {
    tracks.push_back({{"name", track.name},
                      {"start", Encoded<double>(track.start)},
                      {"length", Encoded<float>(track.length)},
                      {"kind", Encoded<std::uint8_t>(track.kind)},
                      {"micro_batch", Encoded<std::int32_t>(track.micro_batch)}});
  }
  return {{"source", timeline.source}, {"kinds", timeline.kinds}, {"tracks", std::move(tracks)}};
}

Json ToJson(const std::vector<MemoryRow>& rows) {
  Json list = Json::array();
  for (const MemoryRow& row : rows) {
    const std::string label = row.rank < 0
                                  ? "stage " + std::to_string(row.stage)
                                  : "rank " + std::to_string(row.rank) + ", stage " + std::to_string(row.stage);
    list.push_back({{"label", label}, {"kinds", row.kinds}});
  }
  return list;
}

Json ToJson(const std::vector<RunEvent>& events) {
  Json list = Json::array();
  for (const RunEvent& event : events) {
    list.push_back({{"step", event.step}, {"time", event.time}, {"kind", event.kind}, {"text", event.text}});
  }
  return list;
}

// The last value that is a number.
double Last(const std::vector<double>& values) {
  const auto found = std::find_if(values.rbegin(), values.rend(), [](double value) { return std::isfinite(value); });
  return found == values.rend() ? std::nan("") : *found;
}

Json Columns(const MetricColumns& metrics, const std::vector<std::size_t>& rows) {
  static const std::vector<std::string> kLeftOut = {"predicted_seconds", "tflops", "model_tflops", "share_of_peak"};
  Json columns = Json::object();
  for (const MetricColumn& column : MetricColumnsOfSteps()) {
    if (std::find(kLeftOut.begin(), kLeftOut.end(), column.name) == kLeftOut.end()) {
      const std::vector<double>& values = metrics.*column.member;
      const bool axis = columns.size() < 3;  // step, tokens, hours
      columns[column.name] = axis ? Encoded<double>(values, &rows) : Encoded<float>(values, &rows);
    }
  }
  return columns;
}

Json TimelinesOf(const RunRecord& run) {
  Json list = Json::array();
  for (const TraceTimeline& timeline : run.timelines) {
    list.push_back(ToJson(timeline));
  }
  return list;
}

// Everything but the timelines, with these rows of the columns.
Json ToJson(const RunRecord& run, const std::vector<std::size_t>& rows) {
  const MetricColumns& metrics = run.metrics;
  Json losses = Json::array();
  for (const double loss : metrics.validation_loss) {
    losses.push_back(OptionalNumber(loss));
  }
  return {{"name", run.name},
          {"path", run.path},
          {"steps", run.steps()},
          {"total_steps", run.total_steps},
          {"thinned", rows.size() < metrics.step.size()},
          {"columns", Columns(metrics, rows)},
          {"validation", {{"step", metrics.validation_step}, {"loss", std::move(losses)}}},
          {"config", run.config},
          {"events", ToJson(run.events)},
          {"memory", {{"measured", ToJson(run.measured_memory)}, {"predicted", ToJson(run.planned_memory)}}},
          {"seconds",
           {{"measured", run.MedianSeconds()},
            {"predicted", run.predicted_seconds},
            {"low", run.predicted_low},
            {"high", run.predicted_high},
            {"knowledge", run.knowledge},
            {"measured_causes", run.MedianCauses()},
            {"predicted_causes", run.predicted_causes}}},
          {"summary",
           {{"loss", OptionalNumber(Last(metrics.loss))},
            {"tokens_per_second", Finite(MedianOf(metrics.tokens_per_second))},
            {"share_of_peak", Finite(MedianOf(metrics.share_of_peak))},
            {"memory_bytes", Finite(Last(metrics.memory_bytes))}}},
          {"machine", run.machine.empty() ? Json(nullptr) : Json(ParseJsonOrDiscard(run.machine))}};
}

// A number where the whole text is one.
Json Cell(const std::string& text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty()) {
    return nullptr;
  }
  return error == std::errc() && stop == text.data() + text.size() && std::isfinite(value) ? Json(value) : Json(text);
}

Json ToJson(const ReportTable& table) {
  Json rows = Json::array();
  for (const std::vector<std::string>& row : table.rows) {
    Json cells = Json::array();
    for (const std::string& text : row) {
      cells.push_back(Cell(text));
    }
    rows.push_back(std::move(cells));
  }
  return {{"name", table.name}, {"columns", table.columns}, {"rows", std::move(rows)}};
}

}  // namespace

std::vector<std::size_t> ThinnedRows(const std::vector<double>& values, std::size_t most) {
  std::vector<std::size_t> rows;
  if (values.size() <= std::max<std::size_t>(most, 4)) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      rows.push_back(i);
    }
    return rows;
  }
  const std::size_t stretches = std::max<std::size_t>(1, (most - 2) / 2);
  rows.push_back(0);
  for (std::size_t stretch = 0; stretch < stretches; ++stretch) {
    const std::size_t begin = values.size() * stretch / stretches;
    const std::size_t end = values.size() * (stretch + 1) / stretches;
    std::size_t least = begin;
    std::size_t greatest = begin;
    for (std::size_t i = begin; i < end; ++i) {
      least = values[i] < values[least] || std::isnan(values[least]) ? i : least;
      greatest = values[i] > values[greatest] || std::isnan(values[greatest]) ? i : greatest;
    }
    rows.push_back(std::min(least, greatest));
    rows.push_back(std::max(least, greatest));
  }
  rows.push_back(values.size() - 1);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

std::string JsonInPage(const nlohmann::ordered_json& value) {
  const std::string text = JsonText(value, {.ascii = true});
  // "</script>" in a name must not end the element that holds the document.
  std::string safe;
  safe.reserve(text.size());
  for (const char letter : text) {
    letter == '<' ? safe += "\\u003c" : safe += letter;
  }
  return safe;
}

std::string RunUpdate(const RunRecord& run, std::int64_t from, bool timelines) {
  std::vector<std::size_t> rows;
  for (std::int64_t row = from; row < run.steps(); ++row) {
    rows.push_back(static_cast<std::size_t>(row));
  }
  Json update = ToJson(run, rows);
  if (timelines) {
    update["timelines"] = TimelinesOf(run);
  }
  return JsonText(update, {.ascii = true});
}

std::string ReportDocument(const ReportInput& input) {
  std::size_t points = 0;
  for (const RunRecord& run : input.runs) {
    points += run.metrics.step.size();
  }
  const double share =
      points > 0 ? std::min(1.0, static_cast<double>(input.most_points) / static_cast<double>(points)) : 1;
  Json document = {{"version", 1},
                   {"program", input.program},
                   {"made", input.made},
                   {"runs", Json::array()},
                   {"tables", Json::array()},
                   {"plans", Json::array()},
                   {"timelines", Json::array()}};
  for (const RunRecord& run : input.runs) {
    const double own = std::ceil(share * static_cast<double>(run.metrics.step.size()));
    const std::size_t most = std::max<std::size_t>(200, static_cast<std::size_t>(own));
    Json one = ToJson(run, ThinnedRows(run.metrics.loss, most));
    one["timelines"] = TimelinesOf(run);
    document["runs"].push_back(std::move(one));
  }
  for (const ReportTable& table : input.tables) {
    document["tables"].push_back(ToJson(table));
  }
  for (const auto& [name, plan] : input.plans) {
    document["plans"].push_back({{"name", name}, {"plan", Json(ParseJsonOrDiscard(plan))}});
  }
  for (const auto& [name, timeline] : input.timelines) {
    document["timelines"].push_back({{"name", name}, {"timeline", ToJson(timeline)}});
  }
  if (input.live_version >= 0) {
    document["live"] = input.live_version;
  }
  return JsonInPage(document);
}

}  // namespace trireme
