#include "fuzz/fuzz_input.h"
#include "topology/software_stack.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  return Tolerate([&] {
    const SoftwareStack stack = ParseStack(std::string(FuzzInput(data, size).Rest()), "input");
    Resolve(stack, Cluster{}, "2023-05");
    for (const StackCalibration& calibration : stack.calibrations) {
      ToToml(calibration);
    }
  });
}
