#include "measure/machine.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/platform.h"
#include "comm/library_versions.h"
#include "device/cpu/cpu_level.h"
#include "device/cpu/product/engine_choice.h"
#include "device/device.h"
#include "device/host_memory.h"
#include "measure/chosen_engines.h"
#include "measure/cpu_model.h"
#include "measure/missing.h"

namespace trireme {
namespace {

// The value of a line "KEY=value" or "Key:   value", without quotes; empty where there is none.
std::string ValueIn(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key) && line.size() > key.size() && (line[key.size()] == '=' || line[key.size()] == ':')) {
      std::string value = line.substr(key.size() + 1);
      value.erase(0, value.find_first_not_of(" \t\""));
      value.erase(value.find_last_not_of(" \t\"") + 1);
      return value;
    }
  }
  return "";
}

std::int64_t KilobytesIn(const std::string& path, const std::string& key) {
  std::int64_t kilobytes = 0;
  std::istringstream(ValueIn(path, key)) >> kilobytes;
  return kilobytes;
}

SystemFacts DescribeSystem(const std::string& root) {
  SystemFacts facts;
  utsname names{};
  if (uname(&names) == 0) {
    facts.host = names.nodename;
    facts.kernel = std::string(names.sysname) + " " + names.release;
    facts.architecture = names.machine;
  }
  facts.system = ValueIn(root + "/etc/os-release", "PRETTY_NAME");
  return facts;
}

CpuFacts DescribeCpu(const std::string& root) {
  CpuFacts facts{.model = CpuModel(root), .level = std::string(NameOf(ChosenCpuLevel())), .cores = ReadHostCores(root)};
  for (const CpuLevel level : CpuLevels()) {
    facts.levels.emplace_back(NameOf(level));
  }
  return facts;
}

// "always [madvise] never" has its choice in brackets.
std::string ChosenOf(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  const std::size_t begin = line.find('[');
  const std::size_t end = line.find(']', begin);
  return begin == std::string::npos || end == std::string::npos ? "" : line.substr(begin + 1, end - begin - 1);
}

MemoryFacts DescribeMemory(const std::string& root) {
  const std::string meminfo = root + "/proc/meminfo";
  MemoryFacts facts{.machine_bytes = KilobytesIn(meminfo, "MemTotal") * 1024,
                    .usable_bytes = HostMemoryBytes(root),
                    .available_bytes = KilobytesIn(meminfo, "MemAvailable") * 1024,
                    .page_bytes = PageBytes(),
                    .transparent_huge_pages = ChosenOf(root + "/sys/kernel/mm/transparent_hugepage/enabled"),
                    .huge_pages = KilobytesIn(meminfo, "HugePages_Total")};
  struct statvfs shared {};
  if (statvfs((root + "/dev/shm").c_str(), &shared) == 0) {
    facts.shared_bytes = static_cast<std::int64_t>(shared.f_blocks * shared.f_frsize);
    facts.shared_free_bytes = static_cast<std::int64_t>(shared.f_bavail * shared.f_frsize);
  }
  return facts;
}

Limit ReadLimit(const std::string& name, const std::string& flag, __rlimit_resource resource) {
  Limit limit{.name = name, .flag = flag};
  rlimit values{};
  if (getrlimit(resource, &values) == 0) {
    limit.soft = values.rlim_cur == RLIM_INFINITY ? -1 : static_cast<std::int64_t>(values.rlim_cur);
    limit.hard = values.rlim_max == RLIM_INFINITY ? -1 : static_cast<std::int64_t>(values.rlim_max);
  }
  return limit;
}

// GPUs that the driver lists, for builds that cannot ask CUDA.
void AddGpusOfDriver(CudaFacts& facts, const std::string& root) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/proc/driver/nvidia/gpus", ignored)) {
    const std::string name = ValueIn(entry.path().string() + "/information", "Model");
    facts.gpus.push_back({.name = name.empty() ? "NVIDIA GPU" : name});
  }
}

// The first word that is numbers with points between them, of lines such as
// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build".
std::string DriverVersion(const std::string& root) {
  std::istringstream words(ValueIn(root + "/proc/driver/nvidia/version", "NVRM version"));
  for (std::string word; words >> word;) {
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) {
      return word;
    }
  }
  return "";
}

std::vector<Library> DescribeLibraries(const CudaFacts& cuda) {
  return {{"compiler", TRIREME_COMPILER},
          {"oneDNN", LibraryVersion(ProductEngine::kOnednn)},
          {"OpenBLAS", LibraryVersion(ProductEngine::kOpenblas)},
          {"BLIS", LibraryVersion(ProductEngine::kBlis)},
          {"MPI", MpiVersion()},
          {"CUDA", cuda.toolkit},
          {"cuDNN", cuda.cudnn},
          {"NCCL", NcclVersion()}};
}

// The CPU as a run names it: level and engines.
std::string CpuDeviceWith(const std::string& engines) {
  return MakeCpuDevice({.threads = 1, .engines = engines})->description();
}

}  // namespace

std::string ProgramVersion() { return TRIREME_VERSION; }

MachineReport DescribeMachine(const PageAbsences& pages, const std::string& root) {
  MachineReport report{
      .program = TRIREME_VERSION,
      .system = DescribeSystem(root),
      .cpu = DescribeCpu(root),
      .memory = DescribeMemory(root),
      .limits = {ReadLimit("open files", "-n", RLIMIT_NOFILE), ReadLimit("locked memory, bytes", "-l", RLIMIT_MEMLOCK),
                 ReadLimit("processes and threads", "-u", RLIMIT_NPROC)},
      .cuda = DescribeCuda(),
      .nvidia_driver = DriverVersion(root),
      .pages = pages};
  if (!report.cuda.built) {
    AddGpusOfDriver(report.cuda, root);
  }
  report.threads = ThreadsPerRank(report.cpu.cores, 1);
  report.engines = RememberedEngines(report.threads);
  report.device = CpuDeviceWith(report.engines);
  if (const auto usable = std::find_if(report.cuda.gpus.begin(), report.cuda.gpus.end(),
                                       [](const GpuFacts& gpu) { return gpu.built_for; });
      usable != report.cuda.gpus.end()) {
    report.device = usable->name;
  }
  report.libraries = DescribeLibraries(report.cuda);
  report.missing = FindMissing(report, root);
  return report;
}

void MeasureMachine(MachineReport& report) {
  const std::vector<EngineSpeed> speeds = MeasureEngineSpeeds(ChosenCpuLevel(), report.threads);
  // What a run uses: remembered from an earlier one, or measured and remembered now.
  const std::string engines = FastestEnginesHere(report.threads);
  const EngineTable chosen = EngineTable::Parse(engines);
  if (report.device == CpuDeviceWith(report.engines)) {
    report.device = CpuDeviceWith(engines);
  }
  report.engines = engines;
  for (const EngineSpeed& speed : speeds) {
    const ProductEngine used = speed.operands == DType::kFloat32 ? chosen.fp32 : chosen.bf16;
    report.products.push_back({.engine = std::string(NameOf(speed.engine)),
                               .dtype = std::string(Name(speed.operands)),
                               .threads = report.threads,
                               .gflops = speed.flops_per_second * 1e-9,
                               .chosen = speed.engine == used});
  }
  // Beyond the caches of most machines, within the memory of all.
  constexpr std::int64_t kBytes = 128 << 20;
  report.copies.push_back(MeasureCopy(kBytes, 1));
  if (report.threads > 1) {
    report.copies.push_back(MeasureCopy(kBytes, report.threads));
  }
}

}  // namespace trireme
