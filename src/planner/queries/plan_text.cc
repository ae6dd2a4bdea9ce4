#include "planner/queries/plan_text.h"

#include "base/error.h"
#include "base/units.h"
#include "planner/pricing/memory_estimate.h"

namespace trireme {
namespace {

// fp32 master weights and two moments.
constexpr double kCheckpointBytes = 12;

std::string DaysOf(const SearchRequest& request, const Candidate& candidate, const RankingOptions& options) {
  if (options.tokens <= 0) {
    return "";
  }
  const TrainingTime time = TimeOfTraining(request, candidate, options.tokens);
  std::string text = fmt::format(" {:>7.1f} {:>10.0f}", time.days, time.device_hours);
  if (time.megawatt_hours > 0) {
    text += fmt::format(" {:>7.0f}", time.megawatt_hours);
  }
  if (options.deadline_days > 0 && time.days > options.deadline_days) {
    text += " late";
  }
  if (options.device_hours > 0 && time.device_hours > options.device_hours) {
    text += " over allocation";
  }
  return text;
}

std::string SizeText(std::int64_t parameters) {
  const double count = static_cast<double>(parameters);
  return count >= 1e9 ? fmt::format("{:.1f}B", count / 1e9) : fmt::format("{:.1f}M", count / 1e6);
}

}  // namespace

TrainingTime TimeOfTraining(const SearchRequest& request, const Candidate& candidate, double tokens) {
  const double sequence = static_cast<double>(request.config.model.sequence);
  const double parameters = static_cast<double>(ParameterCount(request.config.model));
  return EstimateTraining(
      {.cluster = request.cluster, .devices = request.devices, .checkpoint_bytes = kCheckpointBytes * parameters},
      {{.samples = tokens / sequence,
        .global_batch = static_cast<double>(request.config.batch.global),
        .step_seconds = candidate.seconds}});
}

std::string RankingText(const SearchResult& result, const SearchRequest& request, const RankingOptions& options) {
  std::string text = fmt::format("{} parameters, {} devices of {}, stack {}{}, global batch {}\n\n",
                                 SizeText(ParameterCount(request.config.model)), request.devices, request.cluster.name,
                                 request.stack.name, request.state.calibrated ? "" : " (not calibrated here)",
                                 request.config.batch.global);
  text += fmt::format("{:>4} {:>9} {:>19} {:>8} {:>8} {:>7}{}  {}\n", "", "s/step", "80 % interval", "TFLOP/s", "model",
                      "GiB", options.tokens > 0 ? "    days  dev-hours     MWh" : "", "layout");
  int place = 0;
  for (const Candidate& one : result.ranked) {
    if (++place > options.rows) {
      break;
    }
    text += fmt::format("{:>4} {:>9.3f} {:>9.3f}-{:<9.3f} {:>8.1f} {:>8.1f} {:>7.1f}{}  {}\n", place, one.seconds,
                        one.low, one.high, one.hardware_tflops, one.model_tflops, one.peak / kGibi,
                        DaysOf(request, one, options), one.layout.ToString());
  }
  if (result.ranked.empty()) {
    text += "no layout fits\n";
    if (request.cluster.device.is_host && request.devices > 1) {
      text += "a rank may have several cores: --gpus 1 plans one rank with all of them\n";
    }
  }
  text += "\nfront of speed and memory (nothing is faster with as little)\n";
  for (std::size_t i = 0; i < result.front.size() && i < 10; ++i) {
    const Candidate& one = result.front[i];
    text += fmt::format("     {:>9.3f} s {:>7.1f} GiB  {}\n", one.seconds, one.peak / kGibi, one.layout.ToString());
  }
  text += fmt::format("\n{} layouts considered, {} priced, {} proved slower; refused:\n", result.enumerated,
                      result.priced, result.pruned);
  for (const auto& [reason, count] : result.refused) {
    text += fmt::format("  {:>9}  {}\n", count, reason);
  }
  return text;
}

}  // namespace trireme
