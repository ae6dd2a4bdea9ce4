#include "checkpoint/hugging_face/hugging_face.h"
#include "fuzz/fuzz_input.h"
#include "model/parameter_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  return Tolerate([&] {
    const ModelConfig model = ParseHuggingFaceConfig(std::string(FuzzInput(data, size).Rest()), "input");
    ParseHuggingFaceConfig(FormatHuggingFaceConfig(model, "bf16"), "again");
    if (model.layers <= 64) {
      const ParameterTable table(model);
    }
  });
}
