#include "run/sweep.h"

#include <string>

#include "fuzz/fuzz_input.h"
#include "run/case_list.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  const std::string text(FuzzInput(data, size).Rest());
  Tolerate([&] { ParseCaseList(text, "input.toml"); });
  Tolerate([&] { ParseCaseList(text, "input.csv"); });
  return Tolerate([&] { ParseSweep(text, "input.toml"); });
}
