// A machine, as its file in clusters/ describes it: devices, links by level, host. All numbers are physical (data
// sheet or probe); what software makes of them is in a SoftwareStack. Units here: bytes, seconds, FLOP/s, watts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "topology/measured_rates.h"

namespace trireme {

// What the operands of a block's products are cast to.
enum class ProductFormat : std::uint8_t {
  kNative,    // nothing: they stay in the type of the weights
  kFloat8,    // one scale a tensor
  kMxFloat8,  // one scale for 32 elements
  kNvFloat4,  // one scale for 16 elements
};
// "fp8", "mxfp8", "nvfp4"; anything else is native.
ProductFormat ParseProductFormat(const std::string& name);

// One direction of a link.
struct LinkSpec {
  double latency = 0;
  double bandwidth = 0;
};

inline constexpr double kMebi = 1024.0 * 1024;
inline constexpr double kContextOfUnit = 3 * kMebi;  // bytes; see DeviceSpec::context
inline constexpr int kContextUnits = 108;            // of the chip whose context MemoryTraits::fixed holds, an A100

struct DeviceSpec {
  std::string name;
  std::string api = "cuda";  // that programs of accelerators are written in: cuda, hip (AMD), level-zero (Intel)
  bool is_host = false;  // works in the host's memory: there is nothing to offload to, and no accelerator to ask for
  double memory = 0;
  double memory_bandwidth = 0;
  double launch = 5e-6;  // of one kernel
  int units = 1;         // that work on tiles side by side (SMs)
  // Bytes that a process takes before it allocates: stacks and queues of every unit. Two CUDA chips of 188 and 34 units
  // take 555 and 107 MiB (llama.cpp pull request 23604).
  double context = kContextOfUnit * kContextUnits;
  double peak_fp32 = 0;
  double peak_tf32 = 0;         // 0: as fp32
  double peak_half = 0;         // bf16 and fp16 with fp32 accumulation
  bool has_bf16 = true;         // false: fp16 alone (V100)
  double peak_fp8 = 0;          // 0: as half
  double peak_fp4 = 0;          // 0: as fp8
  double old_matrix_share = 1;  // of peak, what matrix instructions of the generation before reach
  // Shares of these peaks that the chip holds at the power it may draw, by the width of the operands.
  double sustained = 1;
  double sustained_fp8 = 0;  // 0: as `sustained`
  double sustained_fp4 = 0;  // 0: as fp8
  double watts = 0;          // 0: unknown

  double Peak(DType dtype) const;
  double Peak(ProductFormat format, DType dtype) const;  // of products whose operands are cast to `format`
};

// Which rows of a table of measured runs are of this machine.
struct RunLabels {
  std::vector<std::string> clusters;
  std::vector<std::string> accelerators;
};

struct Cluster {
  std::string name;
  std::string site;  // calibrations are of a site: machines that differ in memory only share them
  std::string description;
  int nodes = 1;
  int devices_per_node = 1;
  DeviceSpec device;
  LinkSpec device_link;    // of one device, to the others of its node
  LinkSpec node_link;      // of one network card
  int cards = 1;           // network cards of a node
  int cards_per_ring = 1;  // that one ring of a collective keeps busy
  LinkSpec host_link;      // between one device and its host
  double host_memory = 0;
  // What the operating system keeps of host memory: 5.5 to 9.3 % by the limits of jobs at Ohio's and Arizona's centers
  // (Pitzer 178 of 192 and 363 of 384 GB, Cardinal 464.6 of 512, Puma 470 of 512).
  double system_share = 0.08;
  double host_bandwidth = 0;
  double nvme = 0;  // 0: none
  double nvme_bandwidth = 0;
  double node_watts = 0;               // of a node without its devices; 0: unknown
  double node_failure_hours = 50'000;  // mean time between failures of one node
  RunLabels runs;
  std::optional<MeasuredRates> measured;  // by `trireme calibrate`, or by a run as it begins

  int devices() const { return nodes * devices_per_node; }
  double node_bandwidth() const { return node_link.bandwidth * cards; }
  // Bytes of a node's host memory that a job may fill. Where the host is the device, `device.memory` says it.
  double job_memory() const { return device.is_host ? host_memory : host_memory * (1 - system_share); }
};

// `origin` names the text in errors. A cluster of several nodes without a node link, or of several devices per node
// without a device link, is an Error that says which link is missing.
Cluster ParseCluster(const std::string& text, const std::string& origin);
// Text that ParseCluster reads back; `comment` stands before it, line by line.
std::string ToToml(const Cluster& cluster, const std::string& comment);
// By path, or by the name of a file in `folder`.
Cluster LoadCluster(const std::string& name, const std::string& folder);
// The cluster whose accelerator a device's name holds ("NVIDIA H200" holds "h200"), best one of no particular site;
// none where no label fits.
std::optional<Cluster> ClosestByDevice(const std::vector<Cluster>& clusters, const std::string& device);
// Every cluster of a folder, by name.
std::vector<Cluster> LoadClusters(const std::string& folder);

}  // namespace trireme
