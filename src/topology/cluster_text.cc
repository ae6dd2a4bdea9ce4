#include <fmt/format.h>

#include "base/units.h"
#include "topology/cluster.h"
#include "topology/decimal_units.h"

namespace trireme {
namespace {

// A TOML string; control characters become spaces.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    quoted += letter == '"' || letter == '\\' ? std::string{'\\', letter}
                                              : std::string(1, static_cast<unsigned char>(letter) < ' ' ? ' ' : letter);
  }
  return quoted + "\"";
}

std::string List(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) {
    list += (list.empty() ? "" : ", ") + Quoted(text);
  }
  return "[" + list + "]";
}

std::string LinkText(const char* name, const LinkSpec& link) {
  return fmt::format("\n[links.{}]\nlatency_us = {:.4g}\nbandwidth_gbs = {:.5g}\n", name, link.latency * 1e6,
                     link.bandwidth / kGiga);
}

std::string SustainedText(const DeviceSpec& device) {
  if (device.sustained_fp8 == 0) {
    return fmt::format("{:.4g}", device.sustained);
  }
  return fmt::format("{{ bf16 = {:.4g}, fp8 = {:.4g}, fp4 = {:.4g} }}", device.sustained, device.sustained_fp8,
                     device.sustained_fp4);
}

std::string DeviceText(const DeviceSpec& device) {
  std::string peaks = fmt::format("fp32 = {:.5g}", device.peak_fp32 / kTera);
  peaks += fmt::format(", tf32 = {:.5g}, bf16 = {:.5g}", device.peak_tf32 / kTera, device.peak_half / kTera);
  peaks += fmt::format(", fp8 = {:.5g}, fp4 = {:.5g}", device.peak_fp8 / kTera, device.peak_fp4 / kTera);
  return fmt::format(
      "\n[device]\nname = {}\napi = {}\nis_host = {}\nmemory_gib = {:.5g}\nmemory_bandwidth_gbs = {:.5g}\nlaunch_us = "
      "{:.4g}\n"
      "units = {}\ncontext_mib = {:.5g}\nsustained = {}\nold_matrix_share = {:.4g}\npeak_tflops = {{ {} }}\n{}",
      Quoted(device.name), Quoted(device.api), device.is_host, device.memory / kGibi, device.memory_bandwidth / kGiga,
      device.launch * 1e6, device.units, device.context / kMebi, SustainedText(device), device.old_matrix_share, peaks,
      device.has_bf16 ? "" : "has_bf16 = false\n");
}

}  // namespace

std::string ToToml(const Cluster& cluster, const std::string& comment) {
  std::string text;
  for (std::size_t start = 0; start < comment.size();) {
    const std::size_t end = std::min(comment.find('\n', start), comment.size());
    text += "# " + comment.substr(start, end - start) + "\n";
    start = end + 1;
  }
  text +=
      fmt::format("name = {}\nsite = {}\ndescription = {}\nnodes = {}\ndevices_per_node = {}\n", Quoted(cluster.name),
                  Quoted(cluster.site), Quoted(cluster.description), cluster.nodes, cluster.devices_per_node);
  text += DeviceText(cluster.device);
  if (cluster.device_link.bandwidth > 0) {
    text += LinkText("device", cluster.device_link);
  }
  if (cluster.node_link.bandwidth > 0) {
    text += LinkText("node", cluster.node_link) +
            fmt::format("cards = {}\ncards_per_ring = {}\n", cluster.cards, cluster.cards_per_ring);
  }
  text += LinkText("host", cluster.host_link);
  text += fmt::format("\n[host]\nmemory_gib = {:.5g}\nsystem_share = {:.4g}\nbandwidth_gbs = {:.5g}\n",
                      cluster.host_memory / kGibi, cluster.system_share, cluster.host_bandwidth / kGiga);
  if (cluster.nvme > 0) {
    text += fmt::format("nvme_gib = {:.5g}\nnvme_gbs = {:.5g}\n", cluster.nvme / kGibi, cluster.nvme_bandwidth / kGiga);
  }
  if (cluster.device.watts > 0 || cluster.node_watts > 0) {
    text += fmt::format("\n[power]\ndevice_watts = {:.5g}\nnode_watts = {:.5g}\n", cluster.device.watts,
                        cluster.node_watts);
  }
  if (!cluster.runs.accelerators.empty() || !cluster.runs.clusters.empty()) {
    text += fmt::format("\n[runs]\nclusters = {}\naccelerators = {}\n", List(cluster.runs.clusters),
                        List(cluster.runs.accelerators));
  }
  return cluster.measured ? text + "\n" + ToToml(*cluster.measured) : text;
}

}  // namespace trireme
