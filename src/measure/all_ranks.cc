#include "measure/all_ranks.h"

#include <algorithm>
#include <map>

#include "device/host_cores.h"

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

int JobCores() { return (LaunchedByMpi() ? ReadMachineCores() : ReadHostCores()).usable(); }

int RanksAtOnce(const RankContext& context) { return std::max(1, JobCores() / context.threads); }

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

double SlowestMachine(const std::vector<double>& seconds, const std::vector<double>& nodes) {
  struct Machine {
    double sum = 0;
    int ranks = 0;
  };
  std::map<double, Machine> machines;
  for (std::size_t rank = 0; rank < seconds.size(); ++rank) {
    if (seconds[rank] == kIdleRank) {
      continue;
    }
    if (seconds[rank] == 0) {
      return 0;
    }
    machines[nodes[rank]].sum += seconds[rank];
    ++machines[nodes[rank]].ranks;
  }
  double slowest = 0;
  for (const auto& [node, machine] : machines) {
    slowest = std::max(slowest, machine.sum / machine.ranks);
  }
  return slowest;
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
