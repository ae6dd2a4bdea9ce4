#include "topology/cluster.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/error.h"
#include "base/units.h"
#include "topology/decimal_units.h"
#include "topology/settings.h"

namespace trireme {
namespace {

LinkSpec ReadLink(const Settings& file, const std::string& table, const char* reason) {
  Require(file.HasTable(table), "{} lacks the link [{}], which {}: give latency_us and bandwidth_gbs", file.origin(),
          table, reason);
  return {.latency = file.Number(table + ".latency_us") * 1e-6,
          .bandwidth = file.Positive(table + ".bandwidth_gbs") * kGiga};
}

// One number, or one for each width of operands.
void ReadSustained(const Settings& file, DeviceSpec& device) {
  const std::string key = "device.sustained";
  if (!file.HasTable(key)) {
    device.sustained = file.Positive(key, 1);
    return;
  }
  device.sustained = file.Positive(key + ".bf16", 1);
  device.sustained_fp8 = file.Positive(key + ".fp8", device.sustained);
  device.sustained_fp4 = file.Positive(key + ".fp4", device.sustained_fp8);
}

DeviceSpec ReadDevice(const Settings& file) {
  DeviceSpec device;
  device.name = file.Text("device.name");
  device.api = file.Text("device.api", "cuda");
  Require(device.api == "cuda" || device.api == "hip" || device.api == "level-zero",
          "{}: device.api = '{}' must be cuda, hip or level-zero", file.origin(), device.api);
  device.is_host = file.Flag("device.is_host", false);
  device.memory = file.Positive("device.memory_gib") * kGibi;
  device.memory_bandwidth = file.Positive("device.memory_bandwidth_gbs") * kGiga;
  device.launch = file.Number("device.launch_us", 5) * 1e-6;
  device.units = file.CountOr("device.units", 1);
  const bool counts = device.api == "cuda" && device.units > 1;
  const double context = kContextOfUnit * (counts ? device.units : kContextUnits);
  device.context = file.Positive("device.context_mib", context / kMebi) * kMebi;
  device.peak_fp32 = file.Positive("device.peak_tflops.fp32") * 1e12;
  device.peak_tf32 = file.Positive("device.peak_tflops.tf32", device.peak_fp32 / 1e12) * 1e12;
  device.peak_half = file.Positive("device.peak_tflops.bf16", device.peak_fp32 / 1e12) * 1e12;
  device.has_bf16 = file.Flag("device.has_bf16", true);
  device.peak_fp8 = file.Positive("device.peak_tflops.fp8", device.peak_half / 1e12) * 1e12;
  device.peak_fp4 = file.Positive("device.peak_tflops.fp4", device.peak_fp8 / 1e12) * 1e12;
  device.old_matrix_share = file.Positive("device.old_matrix_share", 1);
  ReadSustained(file, device);
  device.watts = file.Number("power.device_watts", 0);
  return device;
}

Cluster ReadCluster(const Settings& file) {
  Cluster cluster;
  cluster.name = file.Text("name");
  cluster.site = file.Text("site", cluster.name);
  cluster.description = file.Text("description", "");
  cluster.nodes = file.Count("nodes");
  cluster.devices_per_node = file.Count("devices_per_node", 1000);
  cluster.device = ReadDevice(file);
  if (cluster.devices_per_node > 1 || file.HasTable("links.device")) {
    cluster.device_link = ReadLink(file, "links.device", "joins the devices of a node");
  }
  if (cluster.nodes > 1 || file.HasTable("links.node")) {
    cluster.node_link = ReadLink(file, "links.node", "joins the nodes");
    cluster.cards = file.CountOr("links.node.cards", 1);
    cluster.cards_per_ring = file.CountOr("links.node.cards_per_ring", cluster.cards);
  }
  cluster.host_link = ReadLink(file, "links.host", "joins a device and its host");
  cluster.host_memory = file.Positive("host.memory_gib") * kGibi;
  cluster.system_share = file.Number("host.system_share", cluster.system_share);
  Require(cluster.system_share >= 0 && cluster.system_share < 1,
          "{}: host.system_share = {} must be a share of at least 0 and below 1", file.origin(), cluster.system_share);
  cluster.host_bandwidth = file.Positive("host.bandwidth_gbs") * kGiga;
  cluster.nvme = file.Number("host.nvme_gib", 0) * kGibi;
  cluster.nvme_bandwidth = file.Number("host.nvme_gbs", 0) * kGiga;
  cluster.node_watts = file.Number("power.node_watts", 0);
  cluster.node_failure_hours = file.Positive("reliability.node_failure_hours", 50'000);
  cluster.runs = {.clusters = file.Texts("runs.clusters"), .accelerators = file.Texts("runs.accelerators")};
  cluster.measured = ReadMeasured(file);
  file.RequireAllKnown();
  return cluster;
}

}  // namespace

ProductFormat ParseProductFormat(const std::string& name) {
  using std::literals::operator""sv;  // a search asks this of every layout: lengths are compared first
  if (name == "fp8"sv) {
    return ProductFormat::kFloat8;
  }
  if (name == "mxfp8"sv) {
    return ProductFormat::kMxFloat8;
  }
  return name == "nvfp4"sv || name == "fp4"sv ? ProductFormat::kNvFloat4 : ProductFormat::kNative;
}

double DeviceSpec::Peak(DType dtype) const {
  return sustained * (dtype == DType::kBFloat16 || dtype == DType::kFloat16 ? peak_half : peak_tf32);
}

double DeviceSpec::Peak(ProductFormat format, DType dtype) const {
  switch (format) {
    case ProductFormat::kNative:
      return Peak(dtype);
    case ProductFormat::kFloat8:
    case ProductFormat::kMxFloat8:
      return (sustained_fp8 > 0 ? sustained_fp8 : sustained) * peak_fp8;
    case ProductFormat::kNvFloat4: {
      const double as_fp8 = sustained_fp8 > 0 ? sustained_fp8 : sustained;
      return (sustained_fp4 > 0 ? sustained_fp4 : as_fp8) * peak_fp4;
    }
  }
  return Peak(dtype);
}

Cluster ParseCluster(const std::string& text, const std::string& origin) {
  return ReadCluster(Settings::FromText(text, origin));
}

std::optional<Cluster> ClosestByDevice(const std::vector<Cluster>& clusters, const std::string& device) {
  std::string name = device;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  const Cluster* best = nullptr;
  for (const Cluster& cluster : clusters) {
    for (const std::string& label : cluster.runs.accelerators) {
      const bool open = cluster.runs.clusters.empty();
      if (name.find(label) != std::string::npos && (best == nullptr || (open && !best->runs.clusters.empty()))) {
        best = &cluster;
      }
    }
  }
  return best == nullptr ? std::nullopt : std::optional<Cluster>(*best);
}

}  // namespace trireme
