#include "report/bench_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "cost/formulas.h"
#include "model/parameter_table.h"
#include "report/against_prediction.h"
#include "report/log_line.h"

namespace trireme {
namespace {

constexpr double kTokens = 100e9;  // of the columns that say what a training would take

std::string Digits(double value, int digits) { return value > 0 ? fmt::format("{:.{}g}", value, digits) : ""; }

// Characters on a screen.
std::size_t Width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

double TokensPerSecondAndDevice(const BenchRow& row) {
  return row.samples / row.seconds * static_cast<double>(row.config.model.sequence) / row.config.layout.ranks();
}

// Of what the model needs: equal to a ratio of tokens where the model is the same.
double FlopsPerSecondAndDevice(const BenchRow& row) {
  return ModelFlops(row.config.model, row.samples) / row.seconds / row.config.layout.ranks();
}

std::vector<std::string> CellsOf(const BenchRow& row, double base) {
  const RunConfig& config = row.config;
  const ParallelLayout& layout = config.layout;
  const auto parameters = static_cast<double>(ParameterCount(config.model));
  std::vector<std::string> cells = {row.label,
                                    std::to_string(row.nodes),
                                    CompactNumber(parameters),
                                    std::to_string(layout.data),
                                    std::to_string(layout.tensor),
                                    std::to_string(layout.pipeline),
                                    std::to_string(layout.micro_batch),
                                    std::to_string(config.batch.global)};
  if (!row.failure.empty()) {
    cells.resize(22);
    cells.push_back(row.failure);
    return cells;
  }
  const double samples = row.samples / row.seconds;
  const double devices = layout.ranks();
  const bool full = layout.recompute == Recompute::kFull;
  const double each = devices * 1e12;
  const double tokens = TokensPerSecondAndDevice(row) * devices;
  const double days = kTokens / tokens / 86'400;
  const double error = row.predicted > 0 ? 100 * (row.predicted / row.seconds - 1) : 0;
  cells.insert(cells.end(),
               {Digits(row.memory / 1e9, 4), Digits(row.seconds, 4), fmt::format("{:.1f}", 100 * row.spread),
                Digits(row.predicted, 4), row.predicted > 0 ? fmt::format("{:+.1f}", error) : "",
                Digits(row.hardware, 4), Digits(ModelFlops(config.model, samples) / each, 4),
                Digits(EstimatedFlops(config.model, samples, full) / each, 4),
                Digits(MegatronFlops(config.model, samples, full) / each, 4), Digits(samples, 4), Digits(tokens, 5),
                fmt::format("{:.1f}", 100 * FlopsPerSecondAndDevice(row) / base), Digits(days, 4),
                Digits(days * 24 * devices, 4), row.remark});
  return cells;
}

}  // namespace

BenchTable TableOf(const std::vector<BenchRow>& rows) {
  BenchTable table;
  table.columns = {"case",     "nodes",     "size",         "DP",         "TP",         "PP",
                   "MBS",      "GBS",       "memory GB",    "sec/it",     "spread %",   "predicted",
                   "error %",  "TFLOPs",    "TFLOPs model", "TFLOPs 6N",  "TFLOPs Meg", "samples/s",
                   "tokens/s", "scaling %", "days/100B",    "GPU-h/100B", "remark"};
  const auto first = std::find_if(rows.begin(), rows.end(), [](const BenchRow& row) { return row.failure.empty(); });
  const double base = first == rows.end() ? 1 : FlopsPerSecondAndDevice(*first);
  for (const BenchRow& row : rows) {
    table.rows.push_back(CellsOf(row, base));
  }
  return table;
}

namespace {

// The table for people: what the file's percentage says, in words.
BenchTable InWords(BenchTable table) {
  const auto at = [&](const char* name) {
    return static_cast<std::size_t>(std::find(table.columns.begin(), table.columns.end(), name) -
                                    table.columns.begin());
  };
  const std::size_t seconds = at("sec/it");
  const std::size_t predicted = at("predicted");
  const std::size_t error = at("error %");
  if (error == table.columns.size()) {
    return table;
  }
  table.columns[error] = "measured is";
  for (std::vector<std::string>& row : table.rows) {
    const auto number = [&](std::size_t column) { return row[column].empty() ? 0 : std::stod(row[column]); };
    row[error] = AgainstPrediction(number(seconds), number(predicted));
  }
  return table;
}

}  // namespace

std::string ToText(const BenchTable& of) {
  const BenchTable table = InWords(of);
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    std::size_t width = Width(table.columns[column]);
    for (const std::vector<std::string>& row : table.rows) {
      width = std::max(width, Width(row[column]));
    }
    widths.push_back(width);
  }
  std::string text;
  const auto add = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t column = 0; column < cells.size(); ++column) {
      const std::string padding(widths[column] - Width(cells[column]), ' ');
      const bool left = column == 0 || column + 1 == cells.size();
      line += (column == 0 ? "" : "  ") + (left ? cells[column] + padding : padding + cells[column]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add(table.columns);
  for (const std::vector<std::string>& row : table.rows) {
    add(row);
  }
  return text;
}

std::string ToMarkdown(const BenchTable& table) {
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

std::string ToCsv(const BenchTable& table) {
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

}  // namespace trireme
