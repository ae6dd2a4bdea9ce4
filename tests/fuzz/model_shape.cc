#include "planner/queries/model_shape.h"

#include "fuzz/fuzz_input.h"

// A Hugging Face config.json as `plan --model` takes it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  return Tolerate([&] { ParseModelShape(std::string(FuzzInput(data, size).Rest()), "input"); });
}
