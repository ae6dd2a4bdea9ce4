#include "planner/queries/plan_text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "planner/pricing/memory_estimate.h"
#include "planner/queries/layout_words.h"
#include "planner/search/preference.h"

namespace trireme {
namespace {

// fp32 master weights and two moments.
constexpr double kCheckpointBytes = 12;
constexpr std::size_t kTerminalColumns = 100;
constexpr std::ptrdiff_t kTerminalLines = 29;  // and one for the prompt
constexpr std::size_t kMostLayouts = 8;
// Layouts with less memory are told where they are slower by no more than this share.
constexpr double kMuchLess = 0.02;

// "12.5M", "70.6B", "15T"
std::string ShortCount(double count, int places) {
  static constexpr std::pair<double, const char*> kUnits[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}};
  for (const auto& [unit, letter] : kUnits) {
    if (count >= unit) {
      return fmt::format("{:.{}f}{}", count / unit, places, letter);
    }
  }
  return fmt::format("{:.0f}", count);
}

// Three digits or four, whatever the size.
std::string StepSeconds(double seconds) {
  return seconds < 10 ? fmt::format("{:.3f}", seconds) : fmt::format("{:.2f}", seconds);
}

std::string Duration(double days) {
  return days < 1 ? fmt::format("{:.1f} hours", 24 * days) : fmt::format("{:.1f} days", days);
}

std::string TokensPerSecond(double rate) {
  return rate < 100 ? fmt::format("{:.3g}", rate) : Grouped(std::llround(rate));
}

std::string Flagged(const TrainingTime& time, const RankingOptions& options) {
  std::string flags;
  flags += options.deadline_days > 0 && time.days > options.deadline_days ? ", late" : "";
  flags += options.device_hours > 0 && time.device_hours > options.device_hours ? ", over allocation" : "";
  return flags;
}

std::string Row(const SearchRequest& request, const Candidate& one, const RankingOptions& options,
                const std::string& place) {
  std::string lead =
      fmt::format("{:>4} {:>8} {:>4.1f} % {:>6.1f}", place, StepSeconds(one.seconds), 100 * one.mfu, one.peak / kGibi);
  std::string flags;
  if (options.tokens > 0) {
    const TrainingTime time = TimeOfTraining(request, one, options.tokens);
    lead += fmt::format(" {:>7.1f}", time.days);
    flags = Flagged(time, options);
  }
  return Wrapped(lead + "  ", NamedLayout(one.layout) + flags);
}

bool SameAxes(const ParallelLayout& a, const ParallelLayout& b) {
  return a.tensor == b.tensor && a.pipeline == b.pipeline && a.context == b.context;
}

// What a recommended layout has over the fastest one, which is as fast.
std::string AdvantageText(const Preference& own, const Preference& fastest) {
  if (own.nearly_full != fastest.nearly_full) {
    return "leaves more memory free";
  }
  if (own.offloads != fastest.offloads) {
    return "offloads less";
  }
  if (own.stages != fastest.stages) {
    return "has fewer stages";
  }
  return own.options != fastest.options ? "uses fewer options" : "sends less between nodes";
}

std::string BestText(const SearchResult& result, const SearchRequest& request) {
  const Candidate& best = result.recommended;
  const Candidate& fastest = result.ranked.front();
  if (best.layout == fastest.layout) {
    return fmt::format("the fastest of {} layouts", Grouped(result.enumerated));
  }
  const auto preference = [&](const Candidate& one) { return PreferenceOf(PointOf(request, one.layout), one.peak); };
  return fmt::format("of {} layouts {:.1f} % behind the fastest, which is a tie (differences err by {:.1f} %), and {}",
                     Grouped(result.enumerated), 100 * (best.seconds / fastest.seconds - 1), 100 * request.tie,
                     AdvantageText(preference(best), preference(fastest)));
}

// Why a layout is recommended: against the fastest of other axes, and what less memory would cost.
std::string ReasonText(const SearchResult& result, const SearchRequest& request) {
  const Candidate& best = result.recommended;
  const auto cost = [&](const Candidate& one) { return 100 * (one.seconds / best.seconds - 1); };
  std::string text = Wrapped("  why       ", BestText(result, request));
  const auto rival = std::find_if(result.ranked.begin(), result.ranked.end(),
                                  [&](const Candidate& one) { return !SameAxes(one.layout, best.layout); });
  if (rival != result.ranked.end()) {
    text += Wrapped("            ", fmt::format("with another tp, pp or cp {:+.1f} % of time: {}", cost(*rival),
                                                NamedLayout(rival->layout)));
  }
  const Candidate* least = &best;
  for (const Candidate& one : result.front) {
    least = one.seconds <= best.seconds * (1 + kMuchLess) && one.peak < least->peak ? &one : least;
  }
  if (least->peak < 0.95 * best.peak) {
    text += Wrapped("            ",
                    fmt::format("with {:.1f} GiB less {:.1f} % slower: {}", (best.peak - least->peak) / kGibi,
                                cost(*least), NamedLayout(least->layout)));
  }
  return text;
}

// "48,994 out of device memory, 161,593 impossible"
std::string RefusedText(const SearchResult& result) {
  std::int64_t impossible = 0;
  std::string text;
  for (const auto& [reason, count] : result.refused) {
    if (reason == kOutOfDeviceMemory || reason == kOutOfHostMemory) {
      text += fmt::format("{} {}, ", Grouped(count), reason);
    } else {
      impossible += count;
    }
  }
  return text + fmt::format("{} impossible", Grouped(impossible));
}

// Layouts of the front that are not among the first `shown` of the ranking: the nearest two and the one of least
// memory.
std::string FrontText(const SearchResult& result, const SearchRequest& request, const RankingOptions& options,
                      std::size_t shown) {
  const auto shown_end = result.ranked.begin() + static_cast<std::ptrdiff_t>(shown);
  std::vector<const Candidate*> rest;
  for (const Candidate& one : result.front) {
    const bool told =
        std::any_of(result.ranked.begin(), shown_end, [&](const Candidate& row) { return row.layout == one.layout; });
    if (!told) {
      rest.push_back(&one);
    }
  }
  constexpr std::size_t kMost = 3;
  if (rest.size() > kMost) {
    rest.erase(rest.begin() + kMost - 1, rest.end() - 1);
  }
  std::string text = rest.empty() ? "" : "front of speed and memory, further on (nothing is faster with as little)\n";
  for (const Candidate* one : rest) {
    text += Row(request, *one, options, "");
  }
  return text;
}

// The first `shown` layouts, the ties among them named.
std::string RowsText(const SearchResult& result, const SearchRequest& request, const RankingOptions& options,
                     std::size_t shown) {
  const double best = result.ranked.front().seconds;
  std::string text = fmt::format("\n{:>4} {:>8} {:>6} {:>6}{}  layout\n", "", "s/step", "MFU", "GiB",
                                 options.tokens > 0 ? "    days" : "");
  std::size_t tied = 0;
  while (tied < shown && result.ranked[tied].seconds <= best * (1 + request.tie)) {
    ++tied;
  }
  for (std::size_t place = 1; place <= shown; ++place) {
    text += Row(request, result.ranked[place - 1], options, std::to_string(place));
    if (place == tied && tied > 1) {
      text += fmt::format("     1 to {} are equally fast: within {:.1f} % predictions do not tell them apart\n", tied,
                          100 * request.tie);
    }
  }
  return text;
}

std::ptrdiff_t LinesOf(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

}  // namespace

std::string Grouped(std::int64_t count) {
  std::string digits = std::to_string(count);
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3; at -= 3) {
    digits.insert(at - 3, ",");
  }
  return digits;
}

std::string Wrapped(const std::string& lead, const std::string& text) {
  std::string wrapped;
  std::string line = lead;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    const bool first = line.size() == lead.size();
    if (!first && line.size() + 1 + word.size() > kTerminalColumns) {
      wrapped += line + "\n";
      line = std::string(lead.size(), ' ') + word;
    } else {
      line += (first ? "" : " ") + word;
    }
    at = end + 1;
  }
  return wrapped + line + "\n";
}

TrainingTime TimeOfTraining(const SearchRequest& request, const Candidate& candidate, double tokens) {
  const double sequence = static_cast<double>(request.config.model.sequence);
  const double parameters = static_cast<double>(ParameterCount(request.config.model));
  return EstimateTraining(
      {.cluster = request.cluster, .devices = request.devices, .checkpoint_bytes = kCheckpointBytes * parameters},
      {{.samples = tokens / sequence,
        .global_batch = static_cast<double>(request.config.batch.global),
        .step_seconds = candidate.seconds}});
}

std::string RequestText(const SearchRequest& request) {
  const char* const devices = request.devices == 1 ? "device" : "devices";
  return Wrapped("", fmt::format("{} parameters on {} {} of {}, stack {}, global batch {} x {} tokens",
                                 ShortCount(static_cast<double>(ParameterCount(request.config.model)), 1),
                                 Grouped(request.devices), devices, request.cluster.name, request.stack.name,
                                 request.config.batch.global, request.config.model.sequence));
}

std::string CandidateText(const Candidate& candidate, const SearchRequest& request, double tokens) {
  std::string text = fmt::format("  step      {} s ({} to {} in 8 of 10 cases{})\n", StepSeconds(candidate.seconds),
                                 StepSeconds(candidate.low), StepSeconds(candidate.high),
                                 request.state.calibrated ? "" : "; stack not calibrated here");
  text += fmt::format("  speed     {} tokens/s, MFU {:.1f} % (model FLOPs, no recomputation, over the {} peak)\n",
                      TokensPerSecond(candidate.tokens_per_second), 100 * candidate.mfu, Name(DTypeOf(request.config)));
  text += fmt::format(
      "  memory    {:.1f} of {:.1f} GiB per device{}\n", candidate.peak / kGibi, UsableMemory(request.cluster) / kGibi,
      candidate.host > 0 ? fmt::format(", {:.1f} GiB of host memory per node", candidate.host / kGibi) : "");
  if (tokens > 0) {
    const TrainingTime time = TimeOfTraining(request, candidate, tokens);
    text += fmt::format("  training  {}, {} {}{} for {} tokens\n", Duration(time.days),
                        Grouped(std::llround(time.device_hours)),
                        request.cluster.device.is_host ? "device-hours" : "GPU-hours",
                        time.megawatt_hours > 0 ? fmt::format(", {:.3g} MWh", time.megawatt_hours) : "",
                        ShortCount(tokens, tokens >= 1e9 ? 0 : 1));
  }
  return text;
}

std::string RankingText(const SearchResult& result, const SearchRequest& request, const RankingOptions& options) {
  const Candidate& best = result.recommended;
  std::string text = RequestText(request) + "\n";
  text += Wrapped("recommended ", NamedLayout(best.layout)) + CandidateText(best, request, options.tokens);
  text += ReasonText(result, request);
  const std::string end = Wrapped("", fmt::format("{} priced, {} proved slower; refused: {}", Grouped(result.priced),
                                                  Grouped(result.pruned), RefusedText(result)));
  const auto table = [&](std::size_t shown) {
    return RowsText(result, request, options, shown) + FrontText(result, request, options, shown) + end;
  };
  const auto all = result.ranked.size();
  if (options.rows > 0) {
    return text + table(std::min(all, static_cast<std::size_t>(options.rows)));
  }
  std::size_t shown = std::min(all, kMostLayouts);
  while (shown > 1 && LinesOf(text) + LinesOf(table(shown)) > kTerminalLines) {
    --shown;
  }
  return text + table(shown);
}

std::string NothingFitsText(const SearchResult& result, const SearchRequest& request, const LeastDevices& least) {
  std::string text = RequestText(request);
  text += Wrapped("", result.enumerated == 0
                          ? fmt::format("no layout: '{}' offers none with the keys that are held", request.stack.name)
                          : fmt::format("no layout fits: {}", RefusedText(result)));
  if (request.cluster.device.is_host && request.devices > 1) {
    text += "a rank may have several cores: --gpus 1 plans one rank with all of them\n";
  }
  if (least.devices > 0) {
    text += fmt::format("{} devices hold it, {} do not; try --gpus {}:\n", Grouped(least.devices),
                        Grouped(least.too_few), least.devices);
    text += Wrapped("  layout    ", NamedLayout(least.fastest.layout));
    SearchRequest larger = request;
    larger.devices = least.devices;
    text += CandidateText(least.fastest, larger, 0);
  } else if (least.too_few > request.devices) {
    text += fmt::format("nor on more, up to {} devices: see --max-size and --max-sequence\n", Grouped(least.too_few));
  }
  return text;
}

}  // namespace trireme
