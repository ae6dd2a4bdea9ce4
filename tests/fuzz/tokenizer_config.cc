#include "data/tokenizer/tokenizer_config.h"

#include "fuzz/fuzz_input.h"

// Two bytes say how long tokenizer_config.json is; special_tokens_map.json follows.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  static const ScratchFolder folder;
  return Tolerate([&] {
    FuzzInput input(data, size);
    const std::uint64_t bytes = input.Number(2);
    folder.Write("tokenizer_config.json", input.Take(bytes));
    folder.Write("special_tokens_map.json", input.Rest());
    ReadTokenizerConfig(folder.path());
  });
}
