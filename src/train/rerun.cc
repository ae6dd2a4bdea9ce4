#include "train/rerun.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "topology/layout.h"
#include "train/gather_numbers.h"
#include "train/step_stats.h"

namespace trireme {
namespace {

// Rounding in another order stays far below it; a fault that was worth a second look, far above.
constexpr double kTolerance = 0.01;

bool Same(double a, double b) {
  if (!std::isfinite(a) || !std::isfinite(b)) {
    return std::isfinite(a) == std::isfinite(b);
  }
  return std::abs(a - b) <= kTolerance * std::max(std::abs(a), std::abs(b));
}

bool Same(const StepResult& a, const StepResult& b) {
  return Same(a.loss, b.loss) && Same(a.gradient_norm, b.gradient_norm);
}

// How much two losses of one batch disagree; a loss that is not finite disagrees with all that are.
double Distance(double a, double b) {
  if (Same(a, b)) {
    return 0;
  }
  return std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) : HUGE_VAL;
}

std::string Describe(const StepResult& result) {
  return fmt::format("loss {:.4f}, gradient norm {:.3f}", result.loss, result.gradient_norm);
}

// The data rank that disagrees with others about batches; -1: none does. `in_place`: rank d's loss of its own batch,
// `moved`: of that of rank d + 1. Of two ranks that only disagree with each other, the one with the larger loss.
int OddDataRank(const std::vector<double>& in_place, const std::vector<double>& moved) {
  const std::size_t size = in_place.size();
  int odd = -1;
  double most = 0;
  double largest = 0;
  for (std::size_t rank = 0; rank < size; ++rank) {
    const std::size_t before = (rank + size - 1) % size;
    const double distance =
        Distance(in_place[rank], moved[before]) + Distance(in_place[(rank + 1) % size], moved[rank]);
    const double sum = in_place[rank] + moved[rank];
    const double loss = std::isfinite(sum) ? sum : HUGE_VAL;
    if (distance > most || (distance == most && distance > 0 && loss > largest)) {
      odd = static_cast<int>(rank);
      most = distance;
      largest = loss;
    }
  }
  return odd;
}

std::vector<double> LossByDataRank(RankParts& parts, int micro_batches) {
  const double mine = parts.SpeaksForTheHead() ? LossSums(parts, micro_batches)[0] : 0;
  std::vector<double> losses(static_cast<std::size_t>(parts.config().layout.data));
  const ProcessGrid grid(parts.config().layout);
  const auto all = GatherNumbers(parts.world(), parts.device(), {std::bit_cast<std::int64_t>(mine)});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    losses[static_cast<std::size_t>(grid.CoordinateOf(static_cast<int>(rank)).data)] +=
        std::bit_cast<double>(all[rank].front());
  }
  return losses;
}

}  // namespace

double Rerun(RankParts& parts, StepResult& result, std::int64_t first, int micro_batches, const ComputeStep& compute) {
  const ParallelLayout& layout = parts.config().layout;
  const StepResult before = result;
  double correction = compute(result, BatchPlace::kOwn);
  if (!Same(before, result)) {
    result.verdict = {Cause::kPassing, fmt::format("step {}: a passing fault: {}; computed again: {}, which counts",
                                                   result.step, Describe(before), Describe(result))};
    return correction;
  }
  if (layout.data == 1) {
    result.verdict = {Cause::kRepeats,
                      fmt::format("step {}: {}, and the same when computed again: the data, or a lasting fault (there "
                                  "is no other data rank to try it on)",
                                  result.step, Describe(before))};
    return correction;
  }
  const std::vector<double> in_place = LossByDataRank(parts, micro_batches);
  StepResult moved = before;
  compute(moved, BatchPlace::kNextDataRank);
  const int odd = OddDataRank(in_place, LossByDataRank(parts, micro_batches));
  std::string ranks;
  for (int rank = 0; rank < parts.world().size(); ++rank) {
    const bool member = ProcessGrid(layout).CoordinateOf(rank).data == odd;
    ranks += member ? fmt::format("{}{}", ranks.empty() ? "" : ", ", rank) : "";
  }
  if (odd >= 0 || !Same(before, moved)) {
    result.verdict = {
        Cause::kLasting,
        fmt::format("step {}: a lasting fault {}: {}; with each batch on the next data rank: {}", result.step,
                    odd >= 0 ? fmt::format("of data rank {} (ranks {})", odd, ranks) : "of some rank", Describe(before),
                    Describe(moved))};
    return correction;
  }
  // The gradients of the step as it was.
  correction = compute(result, BatchPlace::kOwn);
  result.verdict = {
      Cause::kData,
      fmt::format("step {}: {}, wherever it is computed, so that it is no fault: the data of samples {} to "
                  "{}, which train.skip_steps = \"{}\" passes over, or the training itself",
                  result.step, Describe(before), first, first + result.global_batch - 1, result.step)};
  return correction;
}

}  // namespace trireme
