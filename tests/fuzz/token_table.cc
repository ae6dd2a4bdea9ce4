#include "data/tokenizer/token_table.h"

#include "fuzz/fuzz_input.h"

// A tokenizer.json as an export takes it, for a model of 4,096 tokens.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  static const ScratchFolder folder;
  return Tolerate([&] {
    constexpr std::int64_t kVocabulary = 4096;
    const TokenTable table = ReadTokenTable(folder.Write("tokenizer.json", FuzzInput(data, size).Rest()), kVocabulary);
    if (static_cast<std::int64_t>(table.tokens.size()) > kVocabulary) {
      __builtin_trap();
    }
  });
}
