#include "planner/queries/run_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "cost/formulas.h"
#include "model/parameter_table.h"

namespace trireme {
namespace {

std::string Digits(double value, int digits) { return value > 0 ? fmt::format("{:.{}g}", value, digits) : ""; }

// Whole above a thousand, three digits below: 29.04, 0.661, 1448, 21600.
std::string Amount(double value) {
  return value <= 0 ? "" : value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

// "124.4M", "17.1B", "1.01T"
std::string SizeText(double count) {
  for (const auto& [unit, letter] : {std::pair{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "k"}}) {
    if (count >= unit) {
      return fmt::format("{:.4g}{}", std::round(count / unit * 100) / 100, letter);
    }
  }
  return fmt::format("{:.0f}", count);
}

// "days/100B", "days/1.5T"
std::string PerTokens(const char* what, double tokens) { return fmt::format("{}/{}", what, SizeText(tokens)); }

double SamplesOf(const RunRow& row) {
  return row.samples > 0 ? row.samples : static_cast<double>(row.config.batch.global);
}

// What the model needs: equal to a ratio of tokens where the model is the same.
double FlopsPerSecondAndDevice(const RunRow& row) {
  return ModelFlops(row.config.model, SamplesOf(row)) / row.seconds / row.config.layout.ranks();
}

bool Ran(const RunRow& row) { return row.failure.empty() && row.seconds > 0; }

const RunRow* BaseOf(const std::vector<RunRow>& rows, const std::string& relative_to) {
  if (relative_to.empty()) {
    const auto first = std::find_if(rows.begin(), rows.end(), Ran);
    return first == rows.end() ? nullptr : &*first;
  }
  const auto named =
      std::find_if(rows.begin(), rows.end(), [&](const RunRow& row) { return row.label == relative_to; });
  std::size_t number = 0;
  const auto [stop, error] = std::from_chars(relative_to.data(), relative_to.data() + relative_to.size(), number);
  const bool counted =
      error == std::errc() && stop == relative_to.data() + relative_to.size() && number >= 1 && number <= rows.size();
  Require(named != rows.end() || counted, "--relative-to {}: give the number of a row, 1 to {}, or its case",
          relative_to, rows.size());
  const RunRow& row = named != rows.end() ? *named : rows[number - 1];
  Require(Ran(row), "--relative-to {}: that row has no seconds: {}", relative_to, row.failure);
  return &row;
}

std::string RemarkOf(const RunRow& row) {
  std::string remark = row.failure.empty() ? row.remark : row.failure;
  if (row.shares_cores) {
    remark += remark.empty() ? "" : "; ";
    remark += "ranks share cores";
  }
  return remark;
}

// In the order of the columns that follow the settings.
std::vector<std::string> Figures(const RunRow& row, const TableOptions& options, const RunRow* base) {
  const RunConfig& config = row.config;
  const double samples = SamplesOf(row);
  const double devices = config.layout.ranks();
  const bool full = config.layout.recompute == Recompute::kFull;
  const double each = row.seconds * devices * 1e12;
  const double tokens = samples * static_cast<double>(config.model.sequence) / row.seconds;
  const double days = options.tokens / tokens / 86'400;
  const double error = row.predicted > 0 ? 100 * (row.predicted / row.seconds - 1) : 0;
  const double scaling = base == nullptr ? 0 : FlopsPerSecondAndDevice(row) / FlopsPerSecondAndDevice(*base);
  return {Digits(row.memory / 1e9, 4),
          Amount(row.seconds),
          row.spread >= 0 ? fmt::format("{:.1f}", 100 * row.spread) : "",
          Amount(row.predicted),
          row.predicted > 0 ? fmt::format("{:+.1f}", error) : "",
          Digits(row.hardware, 4),
          Digits(ModelFlops(config.model, samples) / each, 4),
          Digits(EstimatedFlops(config.model, samples, full) / each, 4),
          Digits(MegatronFlops(config.model, samples, full) / each, 4),
          row.mfu > 0 ? fmt::format("{:.1f}", 100 * row.mfu) : "",
          Digits(samples / row.seconds, 4),
          Digits(tokens, 5),
          fmt::format("{:.1f}", 100 * scaling),
          Amount(days),
          Amount(days * 24 * devices),
          Amount(days * 24 * devices * options.price),
          row.fit >= 0 ? fmt::format("{:.0f}", 100 * row.fit) : "",
          RemarkOf(row)};
}

constexpr std::size_t kSettings = 9;  // columns before the figures

std::vector<std::string> CellsOf(const RunRow& row, const TableOptions& options, const RunRow* base) {
  const ParallelLayout& layout = row.config.layout;
  const auto degree = [&](int value) { return row.has_layout ? std::to_string(value) : ""; };
  std::vector<std::string> cells = {
      row.label,
      std::to_string(row.nodes),
      std::to_string(layout.ranks()),
      row.has_model ? SizeText(static_cast<double>(ParameterCount(row.config.model))) : "",
      degree(layout.data),
      degree(layout.tensor),
      degree(layout.pipeline),
      degree(layout.micro_batch),
      std::to_string(row.config.batch.global)};
  if (!Ran(row)) {
    cells.resize(kSettings + 17);
    cells[kSettings] = Digits(row.memory / 1e9, 4);
    cells[kSettings + 16] = row.fit >= 0 ? fmt::format("{:.0f}", 100 * row.fit) : "";
    cells.push_back(RemarkOf(row));
    return cells;
  }
  const std::vector<std::string> figures = Figures(row, options, base);
  cells.insert(cells.end(), figures.begin(), figures.end());
  return cells;
}

}  // namespace

RunTable TableOf(const std::vector<RunRow>& rows, const TableOptions& options) {
  Require(options.tokens > 0, "a training of {} tokens takes no days", options.tokens);
  RunTable table;
  table.columns = {"case",
                   "nodes",
                   "GPUs",
                   "size",
                   "DP",
                   "TP",
                   "PP",
                   "MBS",
                   "GBS",
                   "memory GB",
                   "sec/it",
                   "spread %",
                   "predicted",
                   "error %",
                   "TFLOPs",
                   "TFLOPs model",
                   "TFLOPs 6N",
                   "TFLOPs Meg",
                   "MFU %",
                   "samples/s",
                   "tokens/s",
                   "scaling %",
                   PerTokens("days", options.tokens),
                   PerTokens("GPU-h", options.tokens),
                   "cost",
                   "fit %",
                   "remark"};
  const RunRow* const base = BaseOf(rows, options.relative_to);
  for (const RunRow& row : rows) {
    table.rows.push_back(CellsOf(row, options, base));
  }
  return table;
}

std::string ToMarkdown(const RunTable& table) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (const std::string& cell : cells) {
      std::string safe;
      for (const char letter : cell) {
        safe += letter == '|' ? "\\|" : std::string(1, letter);
      }
      text += " " + safe + " |";
    }
    return text + "\n";
  };
  std::string text = line(table.columns) + "|---|";
  for (std::size_t column = 1; column < table.columns.size(); ++column) {
    text += column + 1 == table.columns.size() ? "---|" : "---:|";
  }
  text += "\n";
  for (const std::vector<std::string>& row : table.rows) {
    text += line(row);
  }
  return text;
}

std::string ToCsv(const RunTable& table) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string text;
    for (const std::string& cell : cells) {
      const bool quoted = cell.find_first_of(",\"\n\r") != std::string::npos;
      std::string safe;
      for (const char letter : cell) {
        safe += letter == '"' ? "\"\"" : std::string(1, letter);
      }
      text += (text.empty() && &cell == &cells.front() ? "" : ",") + (quoted ? "\"" + safe + "\"" : safe);
    }
    return text + "\n";
  };
  std::string text = line(table.columns);
  for (const std::vector<std::string>& row : table.rows) {
    text += line(row);
  }
  return text;
}

nlohmann::ordered_json ToJsonValue(const RunTable& table) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const std::vector<std::string>& row : table.rows) {
    nlohmann::ordered_json one = nlohmann::ordered_json::object();
    for (std::size_t column = 0; column < table.columns.size(); ++column) {
      const std::string& cell = row[column];
      double number = 0;
      const std::size_t sign = cell.starts_with('+') ? 1 : 0;
      const auto [stop, error] = std::from_chars(cell.data() + sign, cell.data() + cell.size(), number);
      const bool whole = error == std::errc() && stop == cell.data() + cell.size();
      const bool text = column == 0 || column + 1 == table.columns.size() || table.columns[column] == "size";
      one[table.columns[column]] = text    ? nlohmann::ordered_json(cell)
                                   : whole ? nlohmann::ordered_json(number)
                                           : nlohmann::ordered_json();
    }
    rows.push_back(std::move(one));
  }
  return rows;
}

}  // namespace trireme
