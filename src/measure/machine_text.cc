#include <fmt/format.h>

#include "measure/machine.h"

namespace trireme {
namespace {

// A row of the screen: a name of at most eleven letters, then its value.
std::string Row(const std::string& name, const std::string& value) { return fmt::format("{:<12}{}\n", name, value); }

std::string Gigabytes(std::int64_t bytes) { return fmt::format("{:.1f} GB", static_cast<double>(bytes) * 1e-9); }

std::string Join(const std::vector<std::string>& words, const char* separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

std::string CpuRows(const CpuFacts& cpu) {
  std::vector<int> processors;
  for (const Processor& processor : cpu.cores.processors) {
    processors.push_back(processor.id);
  }
  std::string cores = fmt::format("{} usable: processors {} of {}, {} cores, {} NUMA node{}", cpu.cores.usable(),
                                  ProcessorListText(processors), cpu.cores.online, cpu.cores.cores(),
                                  cpu.cores.nodes().size(), cpu.cores.nodes().size() == 1 ? "" : "s");
  if (cpu.cores.quota > 0) {
    cores += fmt::format(", quota {:.1f}", cpu.cores.quota);
  }
  return Row("CPU", cpu.model) + Row("level", fmt::format("{} (of {})", cpu.level, Join(cpu.levels, " "))) +
         Row("cores", cores);
}

std::string MemoryRows(const MemoryFacts& memory) {
  std::string text = fmt::format("{}, {} free", Gigabytes(memory.machine_bytes), Gigabytes(memory.available_bytes));
  if (memory.usable_bytes < memory.machine_bytes) {
    text += fmt::format(", control groups leave {}", Gigabytes(memory.usable_bytes));
  }
  const std::string pages =
      fmt::format("{} KiB, transparent huge pages {}, {} reserved", memory.page_bytes / 1024,
                  memory.transparent_huge_pages.empty() ? "unknown" : memory.transparent_huge_pages, memory.huge_pages);
  return Row("memory", text) + Row("pages", pages) +
         Row("/dev/shm",
             fmt::format("{}, {} free", Gigabytes(memory.shared_bytes), Gigabytes(memory.shared_free_bytes)));
}

std::string LimitText(std::int64_t value) { return value < 0 ? "unlimited" : fmt::format("{}", value); }

std::string LimitRows(const std::vector<Limit>& limits) {
  std::vector<std::string> words;
  for (const Limit& limit : limits) {
    words.push_back(fmt::format("{} {} (ulimit {}, at most {})", limit.name, LimitText(limit.soft), limit.flag,
                                LimitText(limit.hard)));
  }
  return Row("limits", Join(words, "\n            "));
}

std::string DriverRow(const MachineReport& report) {
  std::vector<std::string> words;
  if (!report.nvidia_driver.empty()) {
    words.push_back("NVIDIA " + report.nvidia_driver);
  }
  if (!report.cuda.driver.empty()) {
    words.push_back("CUDA " + report.cuda.driver);
  }
  return words.empty() ? "" : Row("driver", Join(words, ", "));
}

std::string GpuRows(const CudaFacts& cuda) {
  if (cuda.gpus.empty()) {
    return Row("GPUs", cuda.built ? "none that CUDA can use" : "none");
  }
  std::string rows;
  for (const GpuFacts& gpu : cuda.gpus) {
    std::string text = gpu.name;
    if (gpu.capability > 0) {
      text +=
          fmt::format(", capability {}.{}, {}", gpu.capability / 10, gpu.capability % 10, Gigabytes(gpu.memory_bytes));
    }
    text += gpu.built_for ? "" : cuda.built ? ", no kernels in this program" : ", not usable: built without CUDA";
    rows += Row(rows.empty() ? "GPUs" : "", text);
  }
  return rows;
}

std::string LibraryRows(const std::vector<Library>& libraries) {
  std::vector<std::string> words;
  for (const Library& library : libraries) {
    words.push_back(library.name + " " + (library.version.empty() ? "no" : library.version));
  }
  return Row("libraries", Join(words, "; "));
}

std::string RateRows(const MachineReport& report) {
  std::string rows;
  for (const ProductRate& rate : report.products) {
    rows += Row(rows.empty() ? "products" : "", fmt::format("{:<5} {:>8.0f} GFLOP/s  {}{}", rate.dtype, rate.gflops,
                                                            rate.engine, rate.chosen ? "" : " (not used)"));
  }
  std::vector<std::string> copies;
  for (const CopyRate& rate : report.copies) {
    copies.push_back(fmt::format("{:.1f} GB/s by {} thread{}", rate.gigabytes_per_second, rate.threads,
                                 rate.threads == 1 ? "" : "s"));
  }
  return copies.empty() ? rows : rows + Row("copying", Join(copies, ", ") + ", reads and writes together");
}

}  // namespace

std::string MachineText(const MachineReport& report) {
  std::string text = Row("trireme", report.program) + Row("system", report.system.system + ", " + report.system.kernel +
                                                                        ", " + report.system.architecture);
  text += CpuRows(report.cpu) + MemoryRows(report.memory) + LimitRows(report.limits) + GpuRows(report.cuda) +
          DriverRow(report) + LibraryRows(report.libraries);
  text += Row("will use", fmt::format("{}, {} thread{} for one rank, divided among more", report.device, report.threads,
                                      report.threads == 1 ? "" : "s"));
  text += Row("engines", report.engines.empty() ? "measured and remembered by the first run" : report.engines);
  text += RateRows(report);
  for (const Missing& missing : report.missing) {
    text += Row("missing", missing.what) + Row("", "  " + missing.command);
  }
  return text;
}

}  // namespace trireme
