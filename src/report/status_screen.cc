#include "report/status_screen.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/plain_text.h"
#include "base/units.h"
#include "comm/ledger.h"
#include "report/against_prediction.h"
#include "report/log_line.h"

namespace trireme {
namespace {

constexpr const char* kReset = "\033[0m";
constexpr const char* kBold = "\033[1m";
constexpr const char* kDim = "\033[2m";
constexpr const char* kGreen = "\033[32m";
constexpr const char* kYellow = "\033[33m";
constexpr const char* kRed = "\033[31m";
constexpr const char* kBlue = "\033[34m";

// A line of parts, each with its colour; cut to the width in characters, not bytes.
class Line {
 public:
  explicit Line(const ScreenOptions& options) : options_(options) {}
  Line& Add(const std::string& told, const char* colour = nullptr) {
    const std::string text = PlainLine(told);
    std::string kept;
    for (std::size_t i = 0; i < text.size() && used_ < options_.width;) {
      std::size_t length = 1;
      while (i + length < text.size() && (static_cast<unsigned char>(text[i + length]) & 0xC0) == 0x80) {
        ++length;
      }
      kept += text.substr(i, length);
      i += length;
      ++used_;
    }
    const bool coloured = options_.colour && colour != nullptr && !kept.empty();
    text_ += coloured ? colour + kept + kReset : kept;
    return *this;
  }
  std::string text() const { return text_ + "\n"; }

 private:
  const ScreenOptions& options_;
  std::string text_;
  int used_ = 0;
};

std::string Bar(double done, int width) {
  const int filled = static_cast<int>(std::clamp(done, 0.0, 1.0) * width);
  std::string bar;
  for (int i = 0; i < width; ++i) {
    bar += i < filled ? "█" : "░";
  }
  return bar;
}

std::string ProgressLine(const ScreenFacts& facts, const ScreenOptions& options) {
  Line line(options);
  if (facts.total_steps <= 0) {
    return line.Add(fmt::format("step {}", facts.step)).text();
  }
  const double done = static_cast<double>(facts.step) / static_cast<double>(facts.total_steps);
  line.Add(Bar(done, std::clamp(options.width - 50, 10, 40)), kBlue)
      .Add(fmt::format(" {:5.1f} %  step {} of {}", 100 * done, facts.step, facts.total_steps));
  if (facts.seconds > 0 && facts.step < facts.total_steps) {
    line.Add("  " + DurationText(facts.seconds * static_cast<double>(facts.total_steps - facts.step)) + " left", kBold);
  }
  return line.text();
}

std::string LossLine(const ScreenFacts& facts, const ScreenOptions& options) {
  const auto finite = [](double value) { return std::isfinite(value); };
  const auto last = std::find_if(facts.losses.rbegin(), facts.losses.rend(), finite);
  const auto first = std::find_if(facts.losses.begin(), facts.losses.end(), finite);
  if (last == facts.losses.rend()) {
    return Line(options).Add("no loss yet").text();
  }
  Line line(options);
  if (finite(facts.losses.back())) {
    line.Add("loss ").Add(fmt::format("{:.4f}", *last), kBold).Add("  ");
  } else {
    line.Add("loss not finite", kRed)
        .Add(fmt::format(" for {} steps, {:.4f} before  ", last - facts.losses.rbegin(), *last));
  }
  line.Add(Sparkline(facts.losses, std::clamp(options.width - 50, 10, 40)), kGreen);
  line.Add(fmt::format("  from {:.4f}", *first), kDim);
  if (facts.validation_loss > 0) {
    line.Add(fmt::format("  validation {:.4f}", facts.validation_loss));
  }
  return line.text();
}

std::string SpeedLine(const ScreenFacts& facts, const ScreenOptions& options) {
  Line line(options);
  line.Add(CompactNumber(facts.tokens_per_second), kBold).Add(" tokens/s");
  if (facts.share_of_peak > 0) {
    line.Add(fmt::format("  {:.1f} % of peak", 100 * facts.share_of_peak));
  }
  if (facts.seconds > 0) {
    line.Add(fmt::format("  {:.4g} s/step", facts.seconds));
  }
  if (facts.predicted_seconds > 0 && facts.seconds > 0) {
    const double off = facts.seconds / facts.predicted_seconds - 1;
    line.Add("  ").Add(AgainstPrediction(facts.seconds, facts.predicted_seconds), off > 0.25 ? kYellow : kDim);
    line.Add(fmt::format(" ({:.4g} s)", facts.predicted_seconds), kDim);
  }
  if (facts.memory_bytes > 0) {
    line.Add("  " + HumanBytes(static_cast<std::int64_t>(facts.memory_bytes)) + " a rank");
  }
  return line.text();
}

const char* ColourOfState(const std::string& state) {
  return state.starts_with("failed") || state.starts_with("no sign") ? kRed
         : state.starts_with("stopped")                              ? kYellow
                                                                     : kGreen;
}

}  // namespace

std::string DurationText(double seconds) {
  const std::int64_t whole = std::llround(seconds);
  return whole >= 2 * 86'400 ? fmt::format("{:.1f} days", seconds / 86'400)
                             : fmt::format("{}:{:02d}:{:02d}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string Sparkline(const std::vector<double>& values, int width) {
  static constexpr const char* kLevels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::size_t columns = std::min(values.size(), static_cast<std::size_t>(std::max(width, 1)));
  std::vector<double> means;
  for (std::size_t column = 0; column < columns; ++column) {
    double sum = 0;
    int count = 0;
    for (std::size_t i = values.size() * column / columns; i < values.size() * (column + 1) / columns; ++i) {
      sum += std::isfinite(values[i]) ? values[i] : 0;
      count += std::isfinite(values[i]) ? 1 : 0;
    }
    if (count > 0) {
      means.push_back(sum / count);
    }
  }
  if (means.empty()) {
    return "";
  }
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  std::string text;
  for (const double mean : means) {
    const double share = *high > *low ? (mean - *low) / (*high - *low) : 0;
    text += kLevels[std::clamp(static_cast<int>(share * 8), 0, 7)];
  }
  return text;
}

std::string StatusScreen(const ScreenFacts& facts, const ScreenOptions& options) {
  Line heading(options);
  heading.Add(facts.title, kBold);
  if (!facts.state.empty()) {
    heading.Add("  ").Add(facts.state, ColourOfState(facts.state));
  }
  const std::string layout = facts.layout.empty() ? "" : Line(options).Add(facts.layout, kDim).text();
  std::string text = heading.text() + layout + ProgressLine(facts, options) + LossLine(facts, options);
  if (facts.tokens_per_second > 0) {
    text += SpeedLine(facts, options);
  }
  const std::size_t shown = std::min(facts.events.size(), static_cast<std::size_t>(std::max(options.events, 0)));
  for (std::size_t i = facts.events.size() - shown; i < facts.events.size(); ++i) {
    text += Line(options).Add("· " + facts.events[i].substr(0, facts.events[i].find('\n')), kDim).text();
  }
  return text;
}

ScreenFacts FactsOf(const RunRecord& run) {
  const MetricColumns& metrics = run.metrics;
  const auto last = [](const std::vector<double>& values) {
    return values.empty() || !std::isfinite(values.back()) ? 0 : values.back();
  };
  const auto recent = [](const std::vector<double>& values) {
    const std::size_t kept = std::min<std::size_t>(values.size(), 50);
    const double median = MedianOf({values.end() - static_cast<std::ptrdiff_t>(kept), values.end()});
    return std::isfinite(median) ? median : 0;
  };
  ScreenFacts facts{.title = run.name,
                    .layout = run.layout,
                    .state = StateOfRun(run.path),
                    .step = static_cast<std::int64_t>(last(metrics.step)),
                    .total_steps = run.total_steps,
                    .losses = metrics.loss,
                    .validation_loss = last(metrics.validation_loss),
                    .seconds = recent(metrics.seconds),
                    .predicted_seconds = run.predicted_seconds,
                    .tokens_per_second = recent(metrics.tokens_per_second),
                    .share_of_peak = recent(metrics.share_of_peak),
                    .memory_bytes = last(metrics.memory_bytes),
                    .events = {}};
  if (run.parameters > 0) {
    facts.title += fmt::format(": {} parameters on {} rank{}", CompactNumber(static_cast<double>(run.parameters)),
                               run.ranks, run.ranks == 1 ? "" : "s");
  }
  for (const RunEvent& event : run.events) {
    facts.events.push_back(fmt::format("step {}: {}", event.step, event.text));
  }
  return facts;
}

std::string StatusJson(const RunRecord& run) {
  const ScreenFacts facts = FactsOf(run);
  const auto known = [](double value) { return value > 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json(); };
  const bool finite = !facts.losses.empty() && std::isfinite(facts.losses.back());
  const nlohmann::ordered_json status = {{"name", run.name},
                                         {"path", run.path},
                                         {"layout", run.layout},
                                         {"state", facts.state},
                                         {"step", facts.step},
                                         {"total_steps", facts.total_steps},
                                         {"loss", finite ? nlohmann::ordered_json(facts.losses.back()) : nullptr},
                                         {"validation_loss", known(facts.validation_loss)},
                                         {"seconds", known(facts.seconds)},
                                         {"predicted_seconds", known(facts.predicted_seconds)},
                                         {"tokens_per_second", known(facts.tokens_per_second)},
                                         {"share_of_peak", known(facts.share_of_peak)},
                                         {"memory_bytes", known(facts.memory_bytes)},
                                         {"events", facts.events}};
  return JsonText(status);
}

std::string StateOfRun(const std::string& folder) {
  std::string state;
  std::int64_t beat = 0;
  bool running = false;
  bool alive = true;
  for (const std::string& path : ListLedgers(folder + "/flight")) {
    try {
      const RankRecord rank = ReadLedger(path, LedgerPart::kHead);
      beat = std::max(beat, rank.heartbeat_ns);
      if (rank.end == LedgerEnd::kFailed) {
        return fmt::format("failed: {}", rank.message.substr(0, rank.message.find('\n')));
      }
      if (rank.end == LedgerEnd::kRunning) {
        running = true;
        alive = alive && (rank.host != HostName() || ProcessStart(rank.pid) == rank.process_start);
      }
      state = rank.end == LedgerEnd::kFinished ? "finished" : "stopped on request";
    } catch (const Error&) {
      // A ledger that cannot be read says nothing.
    }
  }
  if (!running) {
    return state;
  }
  const std::string since = DurationText(static_cast<double>(WallNanoseconds() - beat) * 1e-9);
  return alive ? fmt::format("running, last sign {} ago", since)
               : fmt::format("no sign of life since {}: its process is gone (trireme diagnose says more)", since);
}

int TerminalWidth() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) {
    return 0;
  }
  return size.ws_col > 0 ? size.ws_col : 100;
}

}  // namespace trireme
