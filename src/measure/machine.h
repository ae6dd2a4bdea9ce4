// What this machine is and what Trireme will use of it, as plain data: read from the system in milliseconds, and
// measured on request. `trireme machine` prints it and every run writes the part that is read into its folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/gpu_info.h"
#include "device/host_cores.h"
#include "measure/rates.h"

namespace trireme {

struct SystemFacts {
  std::string host;
  std::string system;        // "Debian GNU/Linux 12 (bookworm)"
  std::string kernel;        // "Linux 6.1.0"
  std::string architecture;  // "x86_64", "aarch64"
};

struct CpuFacts {
  std::string model;
  std::string level;                // that kernels run at
  std::vector<std::string> levels;  // that this machine and this program both have
  HostCores cores;
};

struct MemoryFacts {
  std::int64_t machine_bytes = 0;
  std::int64_t usable_bytes = 0;     // what control groups leave of it
  std::int64_t available_bytes = 0;  // free now, or soon
  std::int64_t page_bytes = 0;
  std::string transparent_huge_pages;  // always | madvise | never; empty: unknown
  std::int64_t huge_pages = 0;         // reserved ones
  std::int64_t shared_bytes = 0;       // of /dev/shm
  std::int64_t shared_free_bytes = 0;
};

// A limit of this process; -1: none.
struct Limit {
  std::string name;  // "open files"
  std::string flag;  // of the shell's ulimit: "-n"
  std::int64_t soft = -1;
  std::int64_t hard = -1;
};

struct Library {
  std::string name;
  std::string version;  // empty: not built in; of a BLAS, which is looked for at run time: not installed
};

// Why the program was built without its pages (report/pages.h); empty: it has them.
struct PageAbsences {
  std::string report;
  std::string planner;
};

// Something that would help and is not there.
struct Missing {
  std::string what;     // with what it is for
  std::string command;  // that brings it
};

struct MachineReport {
  std::string program;  // version of Trireme
  SystemFacts system;
  CpuFacts cpu;
  MemoryFacts memory;
  std::vector<Limit> limits;
  CudaFacts cuda;
  std::string nvidia_driver;  // "570.86.15": its kernel module; empty: not loaded
  std::vector<Library> libraries;
  PageAbsences pages;
  std::vector<Missing> missing;
  std::string device;   // what `train.device = "auto"` takes
  int threads = 1;      // of one rank alone
  std::string engines;  // that multiply, by type; empty: the first run measures and remembers them
  // Measured; empty unless MeasureMachine filled them in.
  std::vector<ProductRate> products;
  std::vector<CopyRate> copies;
};

// The version of Trireme: "0.1.0".
std::string ProgramVersion();

// Everything that needs no measuring. `root` is the folder that holds proc, sys and etc.
MachineReport DescribeMachine(const PageAbsences& pages, const std::string& root = "");
// Adds rates of products in every type and of memory, with report.threads threads; some seconds.
void MeasureMachine(MachineReport& report);

// One screen for a reader.
std::string MachineText(const MachineReport& report);
// The report as one JSON object, indented.
std::string MachineJson(const MachineReport& report);

}  // namespace trireme
