#include "measure/all_ranks.h"

#include <algorithm>

namespace trireme {
namespace {

RateLaw SlowedLaw(const RateLaw& law, double times) { return {.call = law.call * times, .rate = law.rate / times}; }

ProductLaw SlowedLaw(const ProductLaw& law, double times) {
  return {.call = law.call * times,
          .flops = law.flops / times,
          .operands = law.operands / times,
          .results = law.results / times};
}

}  // namespace

std::vector<double> NumbersOfRanks(RankContext& context, double number) {
  Device& device = context.device;
  const int ranks = context.world.size();
  const auto own = static_cast<float>(number);
  const Tensor mine{device.Allocate(4), DType::kFloat32, {1}};
  const Tensor all{device.Allocate(4 * ranks), DType::kFloat32, {ranks}};
  device.CopyFromHost(mine.data, &own, 4);
  context.world.AllGather(mine, all);
  std::vector<float> numbers(static_cast<std::size_t>(ranks));
  device.CopyToHost(numbers.data(), all.data, all.bytes());
  device.Free(mine.data);
  device.Free(all.data);
  return {numbers.begin(), numbers.end()};
}

RankSpeeds CompareRanks(const std::vector<double>& seconds) {
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  return {.slowest = static_cast<int>(most - seconds.begin()),
          .behind_first = *most / seconds.front(),
          .behind_fastest = *most / *least - 1};
}

RankRates Slowed(RankRates rates, double times) {
  for (ProductLaw& law : rates.products) {
    law = SlowedLaw(law, times);
  }
  for (RateLaw& law : rates.works) {
    law = SlowedLaw(law, times);
  }
  return rates;
}

}  // namespace trireme
