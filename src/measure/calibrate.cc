#include "measure/calibrate.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "base/durable_file.h"
#include "base/error.h"
#include "device/gpu_info.h"
#include "device/host_cores.h"
#include "device/host_memory.h"
#include "measure/all_ranks.h"
#include "measure/chosen_engines.h"
#include "measure/cpu_model.h"
#include "measure/group_probe.h"
#include "measure/pace.h"
#include "measure/probe_tensors.h"
#include "measure/rank_probe.h"
#include "measure/rates.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

// Parts of about equal length, for the progress line.
class Progress {
 public:
  Progress(const CalibrateOptions& options, int parts) : options_(options), parts_(parts) {}
  void Next(const std::string& what) {
    if (options_.progress) {
      options_.progress(std::min(1.0, static_cast<double>(done_++) / parts_), what);
    }
  }

 private:
  const CalibrateOptions& options_;
  int parts_;
  int done_ = 0;
};

// Seconds of this machine's cores so far: that any process or another guest of its hypervisor had, of these this
// process's own, and in all.
struct CoreSeconds {
  double used = 0;
  double own = 0;
  double all = 0;
};

CoreSeconds ReadCoreSeconds() {
  CoreSeconds seconds;
  std::ifstream file("/proc/stat");
  std::string label;
  file >> label;
  for (int field = 0; field < 8; ++field) {  // user nice system idle iowait irq softirq steal
    double ticks = 0;
    file >> ticks;
    seconds.all += ticks;
    seconds.used += field == 3 || field == 4 ? 0 : ticks;
  }
  const auto tick = static_cast<double>(sysconf(_SC_CLK_TCK));
  seconds.all /= tick;
  seconds.used /= tick;
  seconds.own = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return seconds;
}

double OwnSince(const CoreSeconds& start) { return ReadCoreSeconds().own - start.own; }

// Share of the cores that others had since `start`, while the job's own ranks had `own` seconds; 0 where the system
// does not say.
double OthersSince(const CoreSeconds& start, double own) {
  const CoreSeconds now = ReadCoreSeconds();
  const double all = now.all - start.all;
  return all > 0 ? std::clamp((now.used - start.used - own) / all, 0.0, 1.0) : 0;
}

// What the ranks of one world found.
struct Findings {
  std::vector<RankProbe> ranks;
  std::vector<GroupRates> groups;
  RankPlace place;
  double copy = 0;    // bytes read and written a second by one rank
  double launch = 0;  // seconds of an operation on nothing
  LinkSpec host_link;
  std::int64_t memory = 0;  // of the device
  double peak[2] = {0, 0};  // data sheet, by kTypes; 0: unknown
};

double CopyRateOf(RankContext& context, bool quick) {
  ProbeTensors tensors(context.device);
  const std::int64_t count = context.device.is_host() ? 1 << 23 : 1 << 26;
  const Tensor from = tensors.Make(DType::kFloat32, {count});
  const Tensor to = tensors.Make(DType::kFloat32, {count});
  return 8.0 * static_cast<double>(count) /
         MedianSeconds(
             context, [&] { context.device.ops().Copy(to, from); }, quick);
}

// Copies between the device and memory of the host that was made for it.
LinkSpec HostLinkOf(RankContext& context, bool quick) {
  Device& device = context.device;
  ProbeTensors tensors(device);
  const auto seconds = [&](std::int64_t count) {
    const Tensor on_device = tensors.Make(DType::kFloat32, {count});
    const Tensor on_host{device.AllocateHost(count * 4), DType::kFloat32, {count}};
    const double taken = MedianSeconds(
        context, [&] { device.ops().Copy(on_device, on_host); }, quick);
    device.FreeHost(on_host.data);
    return taken;
  };
  constexpr std::int64_t kLarge = 1 << 23;
  const double latency = seconds(16);
  return {.latency = latency, .bandwidth = 4.0 * kLarge / std::max(seconds(kLarge) - latency, 1e-9)};
}

struct WorldProbe {
  bool ranks = true;   // measure what one rank does
  bool groups = true;  // measure collectives
};

// What rank 0 of a world finds; collective over it.
Findings Probe(RankContext& context, const WorldProbe& what, const CalibrateOptions& options, Progress& progress) {
  const bool first = context.world.rank() == 0;
  ProbeOptions probe{.quick = options.quick, .units = options.known ? options.known->device.units : 1};
  Findings findings{.place = PlaceOf(context), .memory = context.device.memory_bytes()};
  for (std::size_t type = 0; type < std::size(kTypes); ++type) {
    const std::string name(Name(kTypes[type]));
    probe.progress = [&, name](const std::string& part) { progress.Next(name + " " + part); };
    if (what.ranks) {
      findings.ranks.push_back(MeasureRank(context, kTypes[type], probe));
      findings.peak[type] = context.device.peak_flops(kTypes[type]);
    }
    if (what.groups) {
      const std::vector<GroupRates> groups = MeasureGroups(context, kTypes[type], probe);
      findings.groups.insert(findings.groups.end(), groups.begin(), groups.end());
    }
  }
  if (what.ranks) {
    if (first) {
      progress.Next("memory and host copies");
    }
    findings.copy = CopyRateOf(context, options.quick);
    findings.host_link = HostLinkOf(context, options.quick);
    ProbeTensors tensors(context.device);
    const Tensor one = tensors.Make(DType::kFloat32, {1});
    findings.launch = MedianSeconds(
        context, [&] { context.device.ops().Fill(one, 0); }, options.quick);
  }
  return findings;
}

// Slower of writing and reading back a file that the page cache does not hold.
double DiskRate(const std::string& folder, bool quick) {
  const std::string path = fmt::format("{}/.trireme-calibrate-{}", folder, getpid());
  const std::int64_t bytes = (quick ? 8 : 128) << 20;
  const std::string content(static_cast<std::size_t>(bytes), 'x');
  const auto seconds = [](const auto& work) {
    const auto start = Clock::now();
    work();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  try {
    const double writing = seconds([&] {
      DurableFile file(path);
      file.Append(content);
      file.Close();
    });
    const double reading = seconds([&] { ReadWholeFile(path, bytes); });
    RemoveTree(path);
    return static_cast<double>(bytes) / std::max(writing, reading);
  } catch (const Error& error) {
    RemoveTree(path);
    Fail("the disk of '{}' cannot be measured: {}; name another folder with --disk", folder, error.what());
  }
}

DeviceOptions OptionsOf(const CalibrateOptions& options, int threads) {
  return {.kind = options.device,
          .threads = threads,
          .engines = FixedEnginesOf("auto", false),
          .choose_engines = EngineChooser("auto", false)};
}

// Worlds of threads: of one rank with all cores, of many ranks with few, and of growing groups. Notes the pace of the
// cores before each.
std::vector<Findings> ProbeThreads(const CalibrateOptions& options, Progress& progress, std::vector<double>& paces) {
  std::vector<Findings> all;
  std::mutex adding;
  const auto probe = [&](int ranks, int threads, const WorldProbe& what) {
    if (IsHostDevice(options.device)) {
      paces.push_back(MeasurePace().seconds);
    }
    RunThreadRanks(ranks, OptionsOf(options, threads), [&](RankContext& context) {
      Findings findings = Probe(context, what, options, progress);
      if (context.world.rank() == 0) {
        const std::scoped_lock lock(adding);
        all.push_back(std::move(findings));
      }
    });
  };
  if (!IsHostDevice(options.device)) {
    probe(std::max(1, CudaDeviceCount()), 1, {});
    return all;
  }
  const int cores = ReadHostCores().usable();
  probe(1, cores, {.groups = false});
  if (cores >= 16) {
    probe(cores / 4, 4, {.groups = false});
  }
  if (cores > 1) {
    probe(cores, 1, {.groups = false});
  }
  for (const int ranks : {2, 4}) {
    probe(ranks, std::max(1, cores / ranks), {.ranks = false});
    // Smaller groups of that world are those of the world before.
    auto& groups = all.back().groups;
    groups.erase(
        std::remove_if(groups.begin(), groups.end(), [&](const GroupRates& group) { return group.ranks != ranks; }),
        groups.end());
  }
  return all;
}

const GroupRates* FindGroup(const std::vector<GroupRates>& groups, bool across) {
  const auto found =
      std::find_if(groups.begin(), groups.end(), [&](const GroupRates& group) { return (group.nodes > 1) == across; });
  return found == groups.end() ? nullptr : &*found;
}

// A law without a rate, of a few noisy samples, leaves the link its bandwidth: a cluster's devices need a link.
LinkSpec LinkOf(const GroupRates* group, const LinkSpec& fallback) {
  if (group == nullptr) {
    return fallback;
  }
  return {.latency = group->message.call,
          .bandwidth = group->message.rate > 0 ? group->message.rate : fallback.bandwidth};
}

MeasuredRates Gather(const std::vector<Findings>& all, const CalibrateOptions& options) {
  MeasuredRates measured{.date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr))),
                         .program = TRIREME_VERSION,
                         .machine = MachineName(options.device),
                         .cores = IsHostDevice(options.device) ? JobCores() : 0};
  double squares = 0;
  for (const Findings& findings : all) {
    for (const RankProbe& probe : findings.ranks) {
      measured.ranks.push_back(probe.rates);
      squares += probe.error * probe.error;
    }
    measured.groups.insert(measured.groups.end(), findings.groups.begin(), findings.groups.end());
  }
  // A step is a sum of many operations, whose errors partly cancel.
  const double error = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(measured.ranks.size(), 1)));
  measured.spread = std::clamp(error, 0.08, 0.5);
  return measured;
}

Cluster Assemble(const std::vector<Findings>& all, const CalibrateOptions& options) {
  const Findings& first = all.front();
  Cluster cluster;
  if (options.known) {
    cluster = *options.known;
  }
  cluster.measured = Gather(all, options);
  const MeasuredRates& measured = *cluster.measured;
  const bool host = measured.cores > 0;
  cluster.name = cluster.site = measured.machine;
  cluster.description = "this machine, measured on " + measured.date;
  cluster.nodes = first.place.nodes;
  cluster.devices_per_node = host ? measured.cores : first.place.local_ranks;
  cluster.device.name = measured.machine;
  cluster.device.is_host = host;
  cluster.host_memory = static_cast<double>(HostMemoryBytes());
  cluster.device.memory = host ? cluster.host_memory / cluster.devices_per_node : static_cast<double>(first.memory);
  cluster.device.memory_bandwidth =
      host ? first.copy * std::min(first.place.local_ranks, measured.cores) / measured.cores : first.copy;
  cluster.device.launch = first.launch;
  double flops[2] = {0, 0};
  for (const Findings& findings : all) {
    for (std::size_t type = 0; type < findings.ranks.size(); ++type) {
      flops[type] = std::max(
          {flops[type], findings.ranks[type].product_flops / findings.ranks[type].rates.threads, findings.peak[type]});
    }
  }
  cluster.device.peak_fp32 = cluster.device.peak_tf32 = flops[0];
  cluster.device.peak_half = flops[1];
  cluster.device.peak_fp8 = std::max(cluster.device.peak_fp8, flops[1]);
  cluster.device.peak_fp4 = std::max(cluster.device.peak_fp4, cluster.device.peak_fp8);
  const LinkSpec memory{.latency = first.launch, .bandwidth = first.copy / 2};
  cluster.device_link = LinkOf(FindGroup(measured.groups, false), memory);
  cluster.node_link = cluster.nodes > 1 ? LinkOf(FindGroup(measured.groups, true), memory) : LinkSpec{};
  cluster.cards = cluster.cards_per_ring = 1;
  cluster.host_link = first.host_link;
  cluster.host_bandwidth = MeasureCopy(options.quick ? 16 << 20 : 128 << 20, JobCores()).gigabytes_per_second * 1e9;
  cluster.nvme_bandwidth = DiskRate(options.disk_folder, options.quick);
  cluster.nvme = static_cast<double>(std::max<std::int64_t>(FreeBytes(options.disk_folder), 1));
  cluster.runs = options.known ? options.known->runs : RunLabels{.accelerators = {"cpu"}};
  return cluster;
}

// A machine that others used while it was measured is known less well; kernels of an accelerator do not mind.
void NoteOthers(double others, MeasuredRates& measured) {
  measured.others = others;
  if (measured.cores > 0) {
    measured.spread = std::min(1.0, measured.spread + others);
  }
}

// Laws of this machine's ranks with other numbers of threads than were measured now, at the pace of now.
void KeepEarlier(const std::optional<Cluster>& earlier, MeasuredRates& measured) {
  if (!earlier || !earlier->measured || earlier->measured->machine != measured.machine) {
    return;
  }
  const double times = PaceRatio(*earlier->measured, measured.pace);
  const std::vector<RankRates> now = measured.ranks;
  for (const RankRates& before : earlier->measured->ranks) {
    if (std::none_of(now.begin(), now.end(), [&](const RankRates& one) {
          return one.dtype == before.dtype && one.threads == before.threads;
        })) {
      measured.ranks.push_back(Slowed(before, times));
    }
  }
}

// The median of those paces of a calibration that could be measured; 0 where none was.
double MedianPace(std::vector<double> paces) {
  std::erase(paces, 0.0);
  if (paces.empty()) {
    return 0;
  }
  const auto middle = paces.begin() + static_cast<std::ptrdiff_t>(paces.size() / 2);
  std::nth_element(paces.begin(), middle, paces.end());
  return *middle;
}

// Parts of a launch of processes: three for each type, one for each of its groups' sizes, two at the end.
int PartsOf(int ranks) {
  int sizes = 0;
  for (int size = 2; size <= ranks; size *= 2) {
    ++sizes;
  }
  return static_cast<int>(std::size(kTypes)) * (3 + sizes) + 2;
}

// All processes measure at once; rank 0 puts together what they found. The pace is that of before, between and after
// what ranks and groups do.
std::optional<Cluster> CalibrateProcesses(const CalibrateOptions& options, const CoreSeconds& start) {
  std::optional<Cluster> cluster;
  RunMpiRank(OptionsOf(options, 0), [&](RankContext& context) {
    Progress progress(options, PartsOf(context.world.size()));
    std::vector<double> paces;
    const auto note_pace = [&] {
      if (context.device.is_host()) {
        paces.push_back(MeasurePace(context).seconds);
      }
    };
    note_pace();
    Findings findings = Probe(context, {.groups = false}, options, progress);
    note_pace();
    findings.groups = Probe(context, {.ranks = false}, options, progress).groups;
    note_pace();
    double seconds = 0;
    for (const RankProbe& probe : findings.ranks) {
      seconds += probe.seconds;
    }
    const RankSpeeds speeds = CompareRanks(NumbersOfRanks(context, seconds));
    const std::vector<double> own = NumbersOfRanks(context, OwnSince(start));
    const std::vector<double> nodes = NumbersOfRanks(context, findings.place.node);
    if (context.world.rank() != 0) {
      return;
    }
    double on_node = 0;
    for (std::size_t rank = 0; rank < own.size(); ++rank) {
      on_node += nodes[rank] == nodes.front() ? own[rank] : 0;
    }
    const double others = OthersSince(start, on_node);
    progress.Next("disk");
    for (RankProbe& probe : findings.ranks) {
      probe.rates = Slowed(probe.rates, speeds.behind_first);
    }
    cluster = Assemble({findings}, options);
    MeasuredRates& measured = *cluster->measured;
    measured.slowest = speeds.behind_fastest;
    measured.slowest_rank = speeds.slowest;
    measured.pace = MedianPace(paces);
    NoteOthers(others, measured);
    KeepEarlier(options.earlier, measured);
  });
  return cluster;
}

}  // namespace

std::string MachineName(const std::string& device) {
  if (IsHostDevice(device)) {
    const int cores = JobCores();
    return fmt::format("{} core{} of {}", cores, cores == 1 ? "" : "s", CpuModel());
  }
  const CudaFacts cuda = DescribeCuda();
  return fmt::format("{} x {}", cuda.gpus.size(), cuda.gpus.empty() ? "GPU" : cuda.gpus.front().name);
}

std::optional<Cluster> Calibrate(const CalibrateOptions& options) {
  RequireDevice(options.device);
  Require(std::filesystem::is_directory(options.disk_folder), "--disk '{}' is no folder", options.disk_folder);
  const CoreSeconds start = ReadCoreSeconds();
  if (LaunchedByMpi()) {
    return CalibrateProcesses(options, start);
  }
  // Three parts for each type and world of ranks, one for groups.
  Progress progress(options, IsHostDevice(options.device) ? 24 : 16);
  std::vector<double> paces;
  const std::vector<Findings> all = ProbeThreads(options, progress, paces);
  const double others = OthersSince(start, OwnSince(start));
  progress.Next("disk");
  Cluster cluster = Assemble(all, options);
  NoteOthers(others, *cluster.measured);
  cluster.measured->pace = MedianPace(paces);
  return cluster;
}

}  // namespace trireme
