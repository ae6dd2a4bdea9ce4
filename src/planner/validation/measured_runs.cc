#include "planner/validation/measured_runs.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>

#include "base/csv.h"
#include "base/error.h"
#include "base/text_file.h"

namespace trireme {
namespace {

constexpr std::int64_t kLargestTable = 64 << 20;

using TextMember = std::string MeasuredRun::*;
using NumberMember = std::optional<double> MeasuredRun::*;

const std::map<std::string, TextMember>& TextColumns() {
  static const std::map<std::string, TextMember> kColumns = {
      {"id", &MeasuredRun::id},
      {"source", &MeasuredRun::source},
      {"table", &MeasuredRun::table},
      {"cluster", &MeasuredRun::cluster},
      {"accelerator", &MeasuredRun::accelerator},
      {"system", &MeasuredRun::system},
      {"family", &MeasuredRun::family},
      {"dtype", &MeasuredRun::dtype},
      {"offload", &MeasuredRun::offload},
      {"optimizer", &MeasuredRun::optimizer},
      {"gradient_compression", &MeasuredRun::compression},
      {"pipeline_partition", &MeasuredRun::partition},
      {"activation_recompute", &MeasuredRun::recompute},
      {"outcome", &MeasuredRun::outcome},
      {"date", &MeasuredRun::date},
      {"trust", &MeasuredRun::trust},
      {"note", &MeasuredRun::note},
  };
  return kColumns;
}

const std::map<std::string, NumberMember>& NumberColumns() {
  static const std::map<std::string, NumberMember> kColumns = {
      {"gpus_per_node", &MeasuredRun::gpus_per_node},
      {"gpus", &MeasuredRun::gpus},
      {"layers", &MeasuredRun::layers},
      {"hidden", &MeasuredRun::hidden},
      {"heads", &MeasuredRun::heads},
      {"kv_heads", &MeasuredRun::kv_heads},
      {"ffn", &MeasuredRun::ffn},
      {"head_dim", &MeasuredRun::head_dim},
      {"experts", &MeasuredRun::experts},
      {"experts_per_token", &MeasuredRun::experts_per_token},
      {"chosen", &MeasuredRun::experts_per_token},
      {"expert_ffn", &MeasuredRun::expert_ffn},
      {"shared_ffn", &MeasuredRun::shared_ffn},
      {"dense_layers", &MeasuredRun::dense_layers},
      {"ep", &MeasuredRun::expert},
      {"etp", &MeasuredRun::expert_tensor},
      {"tied", &MeasuredRun::tied},
      {"vocab", &MeasuredRun::vocabulary},
      {"seq", &MeasuredRun::sequence},
      {"tp", &MeasuredRun::tensor},
      {"cp", &MeasuredRun::context},
      {"pp", &MeasuredRun::pipeline},
      {"chunks", &MeasuredRun::chunks},
      {"sequence_parallel", &MeasuredRun::sequence_parallel},
      {"dp", &MeasuredRun::data},
      {"zero_stage", &MeasuredRun::zero},
      {"micro_batch", &MeasuredRun::micro_batch},
      {"gradient_accumulation", &MeasuredRun::accumulation},
      {"global_batch", &MeasuredRun::global_batch},
      {"flash_attention", &MeasuredRun::flash},
      {"memory_gb", &MeasuredRun::memory_gib},
      {"seconds_per_iteration", &MeasuredRun::seconds},
      {"days_per_100b_tokens", &MeasuredRun::days_per_100b},
  };
  return kColumns;
}

std::optional<double> ParseNumber(const std::string& text, const std::string& where, const std::string& column) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) {
    return std::nullopt;
  }
  const std::size_t last = text.find_last_not_of(' ') + 1;
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data() + first, text.data() + last, value);
  Require(error == std::errc() && stop == text.data() + last && std::isfinite(value) && value >= 0 && value < 1e15,
          "{}, column {}: '{}' is no number of the kind that belongs there", where, column, text.substr(0, 40));
  return value;
}

void RequireColumns(const std::vector<std::string>& header, const std::string& origin) {
  for (const char* needed : {"id", "layers", "hidden", "tp", "pp", "dp", "micro_batch", "global_batch"}) {
    if (std::find(header.begin(), header.end(), needed) == header.end()) {
      Fail("{}: the first line names no column '{}': a table of runs needs it{}", origin, needed,
           NearestMatch(needed, header));
    }
  }
}

}  // namespace

// "dgxc-v25.04.01" is of April 2025, "torchtitan-202412" of December 2024; "" where the name tells no month.
std::string ReleaseDate(const std::string& source) {
  const auto number = [&](std::size_t at, std::size_t digits) {
    int value = 0;
    for (std::size_t i = at; i < at + digits; ++i) {
      if (i >= source.size() || std::isdigit(static_cast<unsigned char>(source[i])) == 0) {
        return -1;
      }
      value = 10 * value + (source[i] - '0');
    }
    return value;
  };
  for (std::size_t at = source.find('-'); at != std::string::npos; at = source.find('-', at + 1)) {
    const bool version = at + 4 < source.size() && source[at + 1] == 'v' && source[at + 4] == '.';
    const int year = version ? 2000 + number(at + 2, 2) : number(at + 1, 4);
    const int month = number(at + 5, 2);
    if (year >= 2015 && year < 2100 && month >= 1 && month <= 12) {
      return fmt::format("{}-{:02}", year, month);
    }
  }
  return "";
}

std::optional<double> MeasuredRun::measured_seconds() const {
  if (seconds && *seconds > 0) {
    return seconds;
  }
  if (days_per_100b && *days_per_100b > 0 && global_batch && sequence) {
    return *days_per_100b * 86'400 * *global_batch * *sequence / 100e9;
  }
  return std::nullopt;
}

std::vector<MeasuredRun> ParseRuns(const std::string& text, const std::string& origin) {
  const std::vector<std::vector<std::string>> records = ParseCsv(text, origin);
  Require(!records.empty(), "{} is empty: a table of runs starts with the names of its columns", origin);
  const std::vector<std::string>& header = records.front();
  RequireColumns(header, origin);
  std::vector<MeasuredRun> runs;
  for (std::size_t i = 1; i < records.size(); ++i) {
    MeasuredRun run;
    run.line = static_cast<int>(i) + 1;
    const std::string where = fmt::format("{}, record {}", origin, i);
    Require(records[i].size() == header.size(), "{} has {} fields, but the first line names {} columns", where,
            records[i].size(), header.size());
    for (std::size_t column = 0; column < header.size(); ++column) {
      if (const auto found = TextColumns().find(header[column]); found != TextColumns().end()) {
        run.*(found->second) = records[i][column];
      } else if (const auto number = NumberColumns().find(header[column]); number != NumberColumns().end()) {
        run.*(number->second) = ParseNumber(records[i][column], where, header[column]);
      }
    }
    Require(!run.id.empty(), "{} has no id", where);
    run.date = run.date.empty() ? ReleaseDate(run.source) : run.date;
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<MeasuredRun> LoadRuns(const std::string& path) {
  return ParseRuns(ReadTextFile(path, kLargestTable, "table of runs"), path);
}

}  // namespace trireme
