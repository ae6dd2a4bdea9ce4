#include "train/step_stats.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace trireme {
namespace {

// Requests travel in a sum: request r counts 2^(12 (r - 1)) in a float, exact below 4096 ranks that ask for the same.
double RequestCode(int request) { return request == 0 ? 0 : std::ldexp(1.0, 12 * (request - 1)); }

int LargestRequest(double sum) { return sum < 1 ? 0 : std::ilogb(sum) / 12 + 1; }

}  // namespace

std::array<double, 2> LossSums(RankParts& parts, int micro_batches) {
  std::vector<float> losses(static_cast<std::size_t>(micro_batches) * 2);
  if (!losses.empty()) {
    parts.device().CopyToHost(losses.data(), parts.loader().loss_sums().data,
                              static_cast<std::int64_t>(losses.size()) * 4);
  }
  std::array<double, 2> sums{};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    sums[i % 2] += losses[i];
  }
  return sums;
}

StepStats SumStepStats(RankParts& parts, int micro_batches, bool with_gradients, int request) {
  std::array<double, kStepNumbers> sums{};
  sums[3] = RequestCode(request);
  if (parts.SpeaksForTheHead()) {
    const std::array<double, 2> mine = LossSums(parts, micro_batches);
    std::copy(mine.begin(), mine.end(), sums.begin());
  }
  ZeroShard& zero = parts.zero();
  std::vector<Tensor> gradients = zero.counted_gradients();
  const std::size_t counted = gradients.size();
  gradients.insert(gradients.end(), zero.copied_gradients().begin(), zero.copied_gradients().end());
  if (with_gradients && !gradients.empty()) {
    const auto ranges = static_cast<std::int64_t>(gradients.size());
    parts.device().ops().SumOfSquares(gradients, parts.squares().Range(0, ranges));
    std::vector<float> squares(gradients.size());
    parts.device().CopyToHost(squares.data(), parts.squares().data, ranges * 4);
    for (std::size_t i = 0; i < squares.size(); ++i) {
      // A copy adds nothing to the norm, unless it would poison this rank's weights: then every rank must know.
      sums[2] += i < counted || !std::isfinite(squares[i]) ? squares[i] : 0;
    }
  }
  std::array<float, kStepNumbers> numbers{};
  std::copy(sums.begin(), sums.end(), numbers.begin());
  parts.device().CopyFromHost(parts.numbers().data, numbers.data(), sizeof(numbers));
  parts.world().AllReduce(parts.numbers());
  parts.device().CopyToHost(numbers.data(), parts.numbers().data, sizeof(numbers));
  parts.comms().Verify();  // what ranks did not call alike must not become an update
  return {.loss = numbers[0], .weight = numbers[1], .squared_norm = numbers[2], .request = LargestRequest(numbers[3])};
}

}  // namespace trireme
