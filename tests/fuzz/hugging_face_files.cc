#include "checkpoint/hugging_face/files.h"
#include "fuzz/fuzz_input.h"

// Two bytes say how long the index is (0: none); a safetensors file that it may name as "a.safetensors" follows.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  static const ScratchFolder folder;
  constexpr char kIndex[] = "model.safetensors.index.json";
  return Tolerate([&] {
    FuzzInput input(data, size);
    const std::uint64_t index_bytes = input.Number(2);
    if (index_bytes == 0) {
      folder.Remove(kIndex);
    } else {
      folder.Write(kIndex, input.Take(index_bytes));
    }
    const std::string_view tensors = input.Rest();
    folder.Write("a.safetensors", tensors);
    folder.Write("model.safetensors", tensors);
    const HuggingFaceFiles files(folder.path());
    for (const std::string& name : files.names()) {
      files.Read(name);
    }
  });
}
