#include "device/host_cores.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>

#include "device/control_group.h"

namespace trireme {
namespace {

constexpr int kMostThreads = 4096;

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Fields of /proc/PROCESS/status.
struct ProcessStatus {
  std::string name;
  std::string parent;  // its id; empty where the file cannot be read
  std::vector<int> allowed;
};

ProcessStatus ReadStatus(const std::string& process, const std::string& root) {
  ProcessStatus status;
  std::ifstream file(root + "/proc/" + process + "/status");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = std::min(line.find(":\t"), line.size());
    const std::string_view key = std::string_view(line).substr(0, colon);
    const std::string value = line.substr(std::min(colon + 2, line.size()));
    if (key == "Name") {
      status.name = value;
    } else if (key == "PPid") {
      status.parent = value;
    } else if (key == "Cpus_allowed_list") {
      status.allowed = ParseProcessorList(value);
    }
  }
  return status;
}

// Processors of the launcher that started this process, which binds each process to a few of them; empty where no
// launcher is among its ancestors. Names as the kernel cuts them, at 15 characters.
std::vector<int> LauncherProcessors(const std::string& root) {
  constexpr std::array<std::string_view, 9> kLaunchers = {
      "mpirun", "mpiexec", "orterun", "orted", "prterun", "prted", "hydra_pmi_proxy", "mpiexec.hydra", "slurmstepd"};
  constexpr int kMostAncestors = 64;
  std::string process = ReadStatus("self", root).parent;
  for (int i = 0; i < kMostAncestors && !process.empty() && process != "0"; ++i) {
    const ProcessStatus status = ReadStatus(process, root);
    if (std::ranges::find(kLaunchers, status.name) != kLaunchers.end()) {
      return status.allowed;
    }
    process = status.parent;
  }
  return {};
}

// The processors of the innermost control group that names any; empty where none does.
std::vector<int> GroupProcessors(const std::string& root) {
  for (const ControlGroup& group : ControlGroupsOf("cpuset", root)) {
    for (const char* const file : {"/cpuset.cpus.effective", "/cpuset.effective_cpus", "/cpuset.cpus"}) {
      if (std::vector<int> processors = ParseProcessorList(FirstLine(group.folder + file)); !processors.empty()) {
        return processors;
      }
    }
  }
  return {};
}

// Processors of time that the control groups grant: the least of all groups around; 0 without a limit.
double Quota(const std::string& root) {
  double quota = 0;
  for (const ControlGroup& group : ControlGroupsOf("cpu", root)) {
    double time = 0;  // of each period, both in microseconds; negative or "max": no limit
    double period = 0;
    if (group.version == 2) {
      std::istringstream(FirstLine(group.folder + "/cpu.max")) >> time >> period;
    } else {
      std::istringstream(FirstLine(group.folder + "/cpu.cfs_quota_us")) >> time;
      std::istringstream(FirstLine(group.folder + "/cpu.cfs_period_us")) >> period;
    }
    if (time > 0 && period > 0) {
      quota = quota == 0 ? time / period : std::min(quota, time / period);
    }
  }
  return quota;
}

// NUMA node of each processor that a node lists.
std::map<int, int> NodeOfProcessor(const std::string& root) {
  std::map<int, int> node_of;
  const std::string folder = root + "/sys/devices/system/node";
  for (const int node : ParseProcessorList(FirstLine(folder + "/online"))) {
    for (const int processor : ParseProcessorList(FirstLine(fmt::format("{}/node{}/cpulist", folder, node)))) {
      node_of[processor] = node;
    }
  }
  return node_of;
}

HostCores CoresOf(const std::vector<int>& allowed, const std::string& root) {
  HostCores host;
  const std::map<int, int> node_of = NodeOfProcessor(root);
  const std::string folder = root + "/sys/devices/system/cpu";
  for (const int id : allowed) {
    const std::vector<int> siblings =
        ParseProcessorList(FirstLine(fmt::format("{}/cpu{}/topology/thread_siblings_list", folder, id)));
    const auto node = node_of.find(id);
    host.processors.push_back(
        {.id = id, .core = siblings.empty() ? id : siblings.front(), .node = node == node_of.end() ? 0 : node->second});
  }
  host.quota = Quota(root);
  host.online = static_cast<int>(ParseProcessorList(FirstLine(folder + "/online")).size());
  host.online = std::max(host.online, static_cast<int>(allowed.size()));
  return host;
}

}  // namespace

int HostCores::cores() const {
  std::set<int> distinct;
  for (const Processor& processor : processors) {
    distinct.insert(processor.core);
  }
  return static_cast<int>(distinct.size());
}

int HostCores::usable() const {
  const int by_quota = quota > 0 ? static_cast<int>(quota) : cores();
  return std::max(1, std::min(cores(), by_quota));
}

std::vector<int> HostCores::nodes() const {
  std::set<int> distinct;
  for (const Processor& processor : processors) {
    distinct.insert(processor.node);
  }
  return {distinct.begin(), distinct.end()};
}

std::vector<int> HostCores::ids() const {
  std::vector<int> ids;
  for (const Processor& processor : processors) {
    ids.push_back(processor.id);
  }
  return ids;
}

HostCores ReadHostCores(const std::string& root) {
  std::vector<int> allowed = ReadStatus("self", root).allowed;
  if (allowed.empty()) {
    allowed.resize(std::max(1U, std::thread::hardware_concurrency()));
    std::iota(allowed.begin(), allowed.end(), 0);
  }
  return CoresOf(allowed, root);
}

HostCores ReadMachineCores(const std::string& root) {
  std::vector<int> processors = GroupProcessors(root);
  if (processors.empty()) {
    processors = ParseProcessorList(FirstLine(root + "/sys/devices/system/cpu/online"));
  }
  if (const std::vector<int> given = LauncherProcessors(root); !given.empty()) {
    std::erase_if(processors, [&given](int id) { return std::ranges::find(given, id) == given.end(); });
  }
  return processors.empty() ? ReadHostCores(root) : CoresOf(processors, root);
}

int ThreadsPerRank(const HostCores& cores, int ranks) {
  if (const char* const text = std::getenv("OMP_NUM_THREADS"); text != nullptr) {
    const int wanted = std::atoi(text);
    if (wanted >= 1 && wanted <= kMostThreads) {
      return wanted;
    }
  }
  return std::max(1, cores.usable() / std::max(1, ranks));
}

std::vector<int> ParseProcessorList(const std::string& text) {
  std::vector<int> processors;
  std::string_view rest(text);
  const auto number = [&rest](int& value) {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return error == std::errc() && value >= 0 && value < kMostProcessors;
  };
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  for (int first = 0; number(first);) {
    int last = first;
    if (rest.starts_with('-')) {
      rest.remove_prefix(1);
      if (!number(last)) {
        break;
      }
    }
    for (int processor = first; processor <= last; ++processor) {
      processors.push_back(processor);
    }
    if (!rest.starts_with(',')) {
      break;
    }
    rest.remove_prefix(1);
  }
  std::sort(processors.begin(), processors.end());
  processors.erase(std::unique(processors.begin(), processors.end()), processors.end());
  return processors;
}

std::string ProcessorListText(const std::vector<int>& processors) {
  std::string text;
  for (std::size_t i = 0; i < processors.size();) {
    std::size_t last = i;
    while (last + 1 < processors.size() && processors[last + 1] == processors[last] + 1) {
      ++last;
    }
    text += fmt::format("{}{}", text.empty() ? "" : ",", processors[i]);
    if (last > i) {
      text += fmt::format("-{}", processors[last]);
    }
    i = last + 1;
  }
  return text;
}

}  // namespace trireme
