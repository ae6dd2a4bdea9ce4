#include "topology/cluster.h"

#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  return Tolerate([&] {
    const Cluster cluster = ParseCluster(std::string(FuzzInput(data, size).Rest()), "input");
    if (cluster.devices() < 1 || !(cluster.device.Peak(DType::kBFloat16) >= 0)) {
      __builtin_trap();
    }
  });
}
