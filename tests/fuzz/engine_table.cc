#include "device/cpu/product/engine_choice.h"
#include "fuzz/fuzz_input.h"

// A line of the cache of engines of matrix products.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  return Tolerate([&] {
    const EngineTable table = EngineTable::Parse(FuzzInput(data, size).Rest());
    if (!(EngineTable::Parse(table.ToString()) == table)) {
      __builtin_trap();
    }
  });
}
