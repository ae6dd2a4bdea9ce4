#include "data/tokenizer/character_bpe_tokenizer.h"
#include "data/tokenizer/tokenizer_files.h"
#include "fuzz/fuzz_input.h"

// One byte says how much text for the tokenizer follows; the rest is a tokenizer.json of characters.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  static const ScratchFolder folder;
  return Tolerate([&] {
    FuzzInput input(data, size);
    const std::uint8_t text_bytes = input.Byte();
    const std::string text(input.Take(text_bytes));
    BpeDescription description = ReadTokenizerJson(folder.Write("tokenizer.json", input.Rest()));
    if (!description.characters.has_value()) {
      return;
    }
    const CharacterBpeTokenizer tokenizer(std::move(description), {.replace_ill_formed = true});
    tokenizer.Decode(tokenizer.Encode(text));
  });
}
