#include "report/run_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/units.h"
#include "model/float8_products.h"
#include "operate/flight_report.h"
#include "report/log_line.h"

namespace trireme {
namespace {

constexpr std::size_t kLabelColumns = 10;

std::string Plural(std::int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string ModelText(const ModelConfig& model) {
  std::string text =
      fmt::format("{}, {} parameters", model.family, CompactNumber(static_cast<double>(ParameterCount(model))));
  if (model.adapter.any()) {
    text += fmt::format(" of which {} are trained (LoRA, rank {})",
                        CompactNumber(static_cast<double>(TrainedCount(model))), model.adapter.rank);
  }
  return text + fmt::format(": {} layers, hidden {}, {} heads, vocabulary {}, sequence {}", model.layers, model.hidden,
                            model.heads, model.vocabulary, model.sequence);
}

std::string TypeText(const TrainConfig& train) {
  const bool some_in_fp8 = train.dtype == "fp8" && ParseFloat8Products(train.fp8_products) != kAllLinears;
  return some_in_fp8 ? fmt::format("fp8 (products: {})", train.fp8_products) : train.dtype;
}

std::string DataText(const RunStart& start) {
  const std::int64_t sequence = start.config.model.sequence;
  const auto tokens = [&](std::int64_t samples) { return CompactNumber(static_cast<double>(samples * sequence)); };
  std::string text = start.config.data.source;
  if (start.samples_of_epoch > 0) {
    text += fmt::format(", {} tokens an epoch; the run takes {}, {:.3g} epochs", tokens(start.samples_of_epoch),
                        tokens(start.samples),
                        static_cast<double>(start.samples) / static_cast<double>(start.samples_of_epoch));
  } else {
    text += fmt::format("; the run takes {} tokens", tokens(start.samples));
  }
  return text;
}

std::string FolderText(const RunStart& start) {
  std::string text = Plural(start.steps, "step");
  if (start.from.step > 0) {
    text += fmt::format(", resumed after step {}", start.from.step);
  }
  if (start.folder.empty()) {
    return text + "; nothing is written";
  }
  const std::int64_t every = start.config.checkpoint.every;
  return text + fmt::format("; in {}, checkpoints {}at the end", start.folder,
                            every > 0 ? fmt::format("every {} and ", Plural(every, "step")) : "");
}

// "on every rank", "on rank 3", "on ranks 0-3 6", of many stretches the first ones.
std::string RanksText(const std::vector<int>& ranks, std::size_t all) {
  if (ranks.size() == all) {
    return all == 1 ? "" : "on every rank ";
  }
  return fmt::format("on rank{} {} ", ranks.size() == 1 ? "" : "s", RankRanges(ranks));
}

std::string MemoryText(const MemoryUse& use) {
  std::string text = HumanBytes(use.total()) + ":";
  const char* separator = " ";
  for (int kind = 0; kind < kMemoryKinds; ++kind) {
    const auto memory = static_cast<MemoryKind>(kind);
    if (memory != MemoryKind::kHost && use[memory] > 0) {
      text += fmt::format("{}{} {}", separator, Name(memory), HumanBytes(use[memory]));
      separator = ", ";
    }
  }
  if (use[MemoryKind::kHost] > 0) {
    text += fmt::format("; in host memory {}", HumanBytes(use[MemoryKind::kHost]));
  }
  return text;
}

bool EndsClause(char last) { return last == ',' || last == ';' || last == ':'; }

// The text cut at its spaces, those that follow a letter of which `ends` is true.
template <typename Ends>
std::vector<std::string> PiecesOf(const std::string& text, const Ends& ends) {
  std::vector<std::string> pieces(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ' && i > 0 && ends(text[i - 1])) {
      pieces.emplace_back();
    } else {
      pieces.back() += text[i];
    }
  }
  return pieces;
}

}  // namespace

std::string Labelled(const std::string& label, const std::string& text) {
  std::string lines = fmt::format("{:<{}}", label, kLabelColumns);
  std::size_t column = kLabelColumns;
  const auto put = [&](const std::string& piece) {
    const bool begins = column == kLabelColumns;
    if (!begins && column + 1 + piece.size() > kLogColumns) {
      lines += fmt::format("\n{:{}}", "", kLabelColumns) + piece;
      column = kLabelColumns + piece.size();
    } else {
      lines += (begins ? "" : " ") + piece;
      column += piece.size() + (begins ? 0 : 1);
    }
  };
  for (const std::string& clause : PiecesOf(text, EndsClause)) {
    if (kLabelColumns + clause.size() <= kLogColumns) {
      put(clause);
      continue;
    }
    for (const std::string& word : PiecesOf(clause, [](char) { return true; })) {
      put(word);
    }
  }
  return lines;
}

std::string StartLines(const RunStart& start) {
  const RunConfig& config = start.config;
  const std::string threads = start.threads > 0 ? fmt::format(", {} a rank", Plural(start.threads, "thread")) : "";
  return Labelled("model", ModelText(config.model)) + "\n" +
         Labelled("layout", fmt::format("{} on {}", config.layout.ToString(), Plural(config.layout.ranks(), "rank"))) +
         "\n" + Labelled("device", fmt::format("{}, {}{}", TypeText(config.train), start.device, threads)) + "\n" +
         Labelled("data", DataText(start)) + "\n" + Labelled("run", FolderText(start));
}

std::string MemoryLines(const std::vector<MemoryUse>& by_rank) {
  constexpr std::size_t kMostMemoryLines = 8;
  std::map<std::array<std::int64_t, kMemoryKinds>, std::vector<int>> alike;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    alike[by_rank[rank].bytes].push_back(static_cast<int>(rank));
  }
  std::vector<std::vector<int>> classes;
  for (const auto& [bytes, ranks] : alike) {
    classes.push_back(ranks);
  }
  const auto use = [&](const std::vector<int>& ranks) { return by_rank[static_cast<std::size_t>(ranks.front())]; };
  std::string rest;
  if (classes.size() > kMostMemoryLines) {
    // Those that hold most count.
    std::stable_sort(classes.begin(), classes.end(),
                     [&](const auto& a, const auto& b) { return use(a).total() > use(b).total(); });
    const std::size_t left = classes.size() - kMostMemoryLines;
    rest = "\n" + Labelled("", fmt::format("{} other kinds of ranks have {} to {}", left,
                                           HumanBytes(use(classes.back()).total()),
                                           HumanBytes(use(classes[kMostMemoryLines]).total())));
    classes.resize(kMostMemoryLines);
  }
  std::sort(classes.begin(), classes.end());
  std::string lines;
  for (const std::vector<int>& ranks : classes) {
    lines +=
        (lines.empty() ? "" : "\n") + Labelled("memory", RanksText(ranks, by_rank.size()) + MemoryText(use(ranks)));
  }
  return lines + rest;
}

std::string EndLines(const RunEnding& ending) {
  std::string what =
      fmt::format("{} step {}", ending.stopped ? "stopped on request after" : "finished after", ending.step);
  if (std::isfinite(ending.loss)) {
    what += fmt::format(", loss {:.4f}", ending.loss);
  }
  if (ending.folder.empty()) {
    return Labelled("end", what);
  }
  what += ending.saved ? fmt::format("; saved in {}", ending.folder) : "; the last save failed";
  std::string lines = Labelled("end", what);
  if (ending.stopped || !ending.saved) {
    return lines + "\n" + Labelled("go on", "the same command again goes on from the newest checkpoint");
  }
  if (ending.writes_text) {
    lines += "\n" + Labelled("next", fmt::format("trireme generate {} --prompt \"…\"", ending.folder));
  }
  return lines + "\n" +
         Labelled(ending.writes_text ? "" : "next",
                  fmt::format("trireme report {} --output report.html", ending.folder));
}

}  // namespace trireme
