#include "report/metrics.h"

#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  static const ScratchFolder folder;
  return Tolerate([&] {
    FuzzInput input(data, size);
    const std::uint8_t step = input.Byte();
    folder.Write("metrics.jsonl", input.Rest());
    const MetricsFile metrics(folder.path(), step);
  });
}
