// A table of runs for a terminal.
#include <fmt/format.h>

#include <algorithm>

#include "planner/queries/run_table.h"

namespace trireme {
namespace {

constexpr std::size_t kLongestLabel = 24;

// Columns that give way where a line is too long, the least important first.
const std::vector<std::string>& Dispensable() {
  static const std::vector<std::string> kColumns = {"tokens/s",  "TFLOPs model", "nodes",  "samples/s", "spread %",
                                                    "predicted", "TFLOPs 6N",    "fit %",  "GPU-h",     "TFLOPs Meg",
                                                    "MFU %",     "days",         "error %"};
  return kColumns;
}

// Characters on a screen.
std::size_t Width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// A heading over two lines: "memory" above "GB", "days" above "/100B".
std::pair<std::string, std::string> Heading(const std::string& name) {
  const std::size_t space = name.find(' ');
  if (space != std::string::npos) {
    return {name.substr(0, space), name.substr(space + 1)};
  }
  const std::size_t slash = name.find('/');
  const bool long_rate = slash != std::string::npos && name.size() > 7;
  return long_rate ? std::pair{name.substr(0, slash), name.substr(slash)} : std::pair{std::string(), name};
}

// `text` in lines of at most `width` columns, the later ones `indent` further in.
std::string Folded(const std::string& text, std::size_t width, std::size_t indent) {
  std::string folded;
  std::string line;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && Width(line) + 1 + Width(word) > width) {
      folded += line + "\n";
      line = std::string(indent, ' ') + word;
    } else {
      line += (at == 0 ? "" : " ") + word;
    }
    at = end + 1;
  }
  return folded + line + "\n";
}

class TextTable {
 public:
  TextTable(const RunTable& table, std::size_t width) : table_(table), width_(width) {
    for (std::size_t column = 0; column + 1 < table.columns.size(); ++column) {
      const bool empty = std::all_of(table.rows.begin(), table.rows.end(),
                                     [&](const std::vector<std::string>& row) { return row[column].empty(); });
      if (column == 0 || !empty || table.rows.empty()) {
        shown_.push_back(column);
      }
    }
    ChooseLabels();
    FitColumns();
  }

  std::string Text() const {
    std::string upper;
    std::string lower;
    for (const std::size_t column : shown_) {
      const auto [first, second] = Heading(table_.columns[column]);
      upper += Cell(column, first);
      lower += Cell(column, second);
    }
    std::string text = Trimmed(upper).empty() ? "" : Trimmed(upper) + "\n";
    text += Trimmed(lower) + "\n";
    for (std::size_t row = 0; row < table_.rows.size(); ++row) {
      std::string line;
      for (const std::size_t column : shown_) {
        line += Cell(column, column == 0 ? labels_[row] : Shown(row, column));
      }
      text += Trimmed(line) + "\n";
    }
    return text + Below();
  }

 private:
  // Labels that are too long give way to numbers.
  void ChooseLabels() {
    const bool fit = std::all_of(table_.rows.begin(), table_.rows.end(), [](const std::vector<std::string>& row) {
      return Width(row.front()) <= kLongestLabel;
    });
    for (std::size_t row = 0; row < table_.rows.size(); ++row) {
      labels_.push_back(fit ? table_.rows[row].front() : std::to_string(row + 1));
    }
    numbered_ = !fit;
  }

  // Ranks that shared cores are marked where their scaling is.
  std::string Shown(std::size_t row, std::size_t column) const {
    const std::string& cell = table_.rows[row][column];
    const bool marked = table_.columns[column] == "scaling %" && !cell.empty() &&
                        table_.rows[row].back().find("ranks share cores") != std::string::npos;
    return marked ? cell + "*" : cell;
  }

  std::size_t ColumnWidth(std::size_t column) const {
    const auto [first, second] = Heading(table_.columns[column]);
    std::size_t width = std::max(Width(first), Width(second));
    for (std::size_t row = 0; row < table_.rows.size(); ++row) {
      width = std::max(width, Width(column == 0 ? labels_[row] : Shown(row, column)));
    }
    return width;
  }

  std::size_t LineWidth() const {
    std::size_t width = 0;
    for (const std::size_t column : shown_) {
      width += ColumnWidth(column) + (column == 0 ? 0 : gap_);
    }
    return width;
  }

  void FitColumns() {
    if (LineWidth() > width_) {
      gap_ = 1;
    }
    for (const std::string& name : Dispensable()) {
      if (LineWidth() <= width_) {
        return;
      }
      const auto found = std::find_if(shown_.begin(), shown_.end(), [&](std::size_t column) {
        const std::string& own = table_.columns[column];
        return own == name || own.starts_with(name + "/");
      });
      if (found != shown_.end()) {
        left_out_ += (left_out_.empty() ? "" : ", ") + table_.columns[*found];
        shown_.erase(found);
      }
    }
  }

  std::string Cell(std::size_t column, const std::string& text) const {
    const std::size_t width = ColumnWidth(column);
    const std::string padding(width - std::min(width, Width(text)), ' ');
    return column == 0 ? text + padding : std::string(gap_, ' ') + padding + text;
  }

  static std::string Trimmed(std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
  }

  // Long labels, remarks, and what was left out.
  std::string Below() const {
    std::string text;
    bool marked = false;
    for (std::size_t row = 0; row < table_.rows.size(); ++row) {
      const std::string& remark = table_.rows[row].back();
      marked = marked || remark.find("ranks share cores") != std::string::npos;
      const std::string told = remark == "ranks share cores" ? "" : remark;
      if (!numbered_ && told.empty()) {
        continue;
      }
      const std::string label = numbered_ ? table_.rows[row].front() + (told.empty() ? "" : ": ") : "";
      text += Folded(fmt::format("{}: {}{}", labels_[row], label, told), width_, 2);
    }
    if (marked) {
      text += Folded("* more ranks than cores: the machine is what does not scale here", width_, 2);
    }
    if (!left_out_.empty()) {
      text +=
          Folded("not shown, for want of room: " + left_out_ + " (--format csv, markdown or json has all)", width_, 2);
    }
    return text;
  }

  const RunTable& table_;
  std::size_t width_;
  std::size_t gap_ = 2;
  std::vector<std::size_t> shown_;
  std::vector<std::string> labels_;
  bool numbered_ = false;
  std::string left_out_;
};

}  // namespace

std::string ToText(const RunTable& table, std::size_t width) { return TextTable(table, width).Text(); }

}  // namespace trireme
