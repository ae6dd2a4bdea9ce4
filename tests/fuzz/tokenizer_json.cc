#include "data/tokenizer/tokenizer_files.h"
#include "fuzz/fuzz_input.h"

// One byte says how much text for the tokenizer follows; the rest is the tokenizer.json.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  static const ScratchFolder folder;
  return Tolerate([&] {
    FuzzInput input(data, size);
    const std::uint8_t text_bytes = input.Byte();
    const std::string text(input.Take(text_bytes));
    const BpeTokenizer tokenizer(ReadTokenizerJson(folder.Write("tokenizer.json", input.Rest())), {});
    const std::vector<std::int32_t> ids = tokenizer.Encode(text);
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= tokenizer.vocabulary()) {
        __builtin_trap();
      }
    }
    tokenizer.Decode(ids);
  });
}
