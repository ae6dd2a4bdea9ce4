// Energy as this machine's hardware counts it: RAPL's packages of the processors, through the kernel's powercap files,
// and GPUs through NVML. Machines without readable counters have none.
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct EnergyCounter {
  std::string name;   // equal from reading to reading
  double joules = 0;  // since some time of its own
  double range = 0;   // above 0: it begins again at 0 beyond so many joules
};

// Counters of the processors' packages; `powercap` is the folder that the kernel keeps.
std::vector<EnergyCounter> ReadHostEnergy(const std::string& powercap = "/sys/class/powercap");
// Counters of the GPUs that CUDA sees. In builds without it none, nor where ranks may share a GPU over NCCL.
std::vector<EnergyCounter> ReadGpuEnergy();

// Adds up what counters grow by from one reading to the next. Counters of processors begin again after a minute or more
// at full power: read once a step.
class EnergySum {
 public:
  void Add(const std::vector<EnergyCounter>& now);
  bool known() const { return !last_.empty(); }
  double joules() const { return joules_; }

 private:
  std::vector<EnergyCounter> last_;
  double joules_ = 0;
};

}  // namespace trireme
