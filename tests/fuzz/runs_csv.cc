#include "fuzz/fuzz_input.h"
#include "planner/validation/measured_runs.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  return Tolerate([&] {
    for (const MeasuredRun& run : ParseRuns(std::string(FuzzInput(data, size).Rest()), "input")) {
      run.measured_seconds();
      Understand(run, {});
    }
  });
}
