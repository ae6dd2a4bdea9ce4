#include "run/sweep.h"

#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  return Tolerate([&] { ParseSweep(std::string(FuzzInput(data, size).Rest()), "input.toml"); });
}
