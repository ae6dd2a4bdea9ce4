#include "measure/calibration_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace trireme {

std::string CalibrationJson(const Cluster& cluster, const std::string& path) {
  const MeasuredRates& measured = *cluster.measured;
  nlohmann::ordered_json value = {{"file", path},
                                  {"machine", measured.machine},
                                  {"date", measured.date},
                                  {"nodes", cluster.nodes},
                                  {"devices_per_node", cluster.devices_per_node},
                                  {"memory_gbs", cluster.device.memory_bandwidth / 1e9},
                                  {"host_copy_gbs", cluster.host_link.bandwidth / 1e9},
                                  {"disk_gbs", cluster.nvme_bandwidth / 1e9},
                                  {"launch_us", cluster.device.launch * 1e6},
                                  {"others", measured.others},
                                  {"slowest", measured.slowest},
                                  {"pace_us", measured.pace * 1e6},
                                  {"spread", measured.spread}};
  for (const RankRates& rates : measured.ranks) {
    value["ranks"].push_back({{"dtype", std::string(Name(rates.dtype))},
                              {"threads", rates.threads},
                              {"product_gflops", rates[ProductPass::kForward].flops / 1e9},
                              {"attention_gflops", rates[RankWork::kAttentionForward].rate / 1e9}});
  }
  for (const GroupRates& rates : measured.groups) {
    value["groups"].push_back({{"dtype", std::string(Name(rates.dtype))},
                               {"ranks", rates.ranks},
                               {"nodes", rates.nodes},
                               {"all_reduce_us", rates.all_reduce.call * 1e6},
                               {"all_reduce_gbs", rates.all_reduce.rate / 1e9}});
  }
  return JsonText(value, {.indent = 2}) + "\n";
}

std::string CalibrationText(const Cluster& cluster) {
  const MeasuredRates& measured = *cluster.measured;
  std::string text = fmt::format("{}, {} node{} of {}\n", measured.machine, cluster.nodes,
                                 cluster.nodes == 1 ? "" : "s", cluster.devices_per_node);
  for (const RankRates& rates : measured.ranks) {
    text += fmt::format("  {}, {} thread{} per rank: products {:.4g} GFLOP/s, attention {:.4g} GFLOP/s\n",
                        Name(rates.dtype), rates.threads, rates.threads == 1 ? "" : "s",
                        rates[ProductPass::kForward].flops / 1e9, rates[RankWork::kAttentionForward].rate / 1e9);
  }
  for (const GroupRates& rates : measured.groups) {
    text += fmt::format("  {}, {} ranks on {} node{}: all-reduce {:.3g} us and {:.3g} GB/s\n", Name(rates.dtype),
                        rates.ranks, rates.nodes, rates.nodes == 1 ? "" : "s", rates.all_reduce.call * 1e6,
                        rates.all_reduce.rate / 1e9);
  }
  return text +
         fmt::format("  memory {:.3g} GB/s per device, host copies {:.3g} GB/s, disk {:.3g} GB/s, launch {:.3g} us\n",
                     cluster.device.memory_bandwidth / 1e9, cluster.host_link.bandwidth / 1e9,
                     cluster.nvme_bandwidth / 1e9, cluster.device.launch * 1e6);
}

}  // namespace trireme
