#include "data/tokenizer/token_table.h"
#include "data/tokenizer/tokenizer.h"
#include "fuzz/fuzz_input.h"

// One byte says how much text follows; the rest is a SentencePiece model, which the library gets once it is checked.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  static const ScratchFolder folder;
  FuzzInput input(data, size);
  const std::uint8_t text_bytes = input.Byte();
  const std::string text(input.Take(text_bytes));
  const std::string path = folder.Write("tokenizer.model", input.Rest());
  Tolerate([&] { ReadTokenTable(path, 1 << 16); });
  return Tolerate([&] {
    const std::unique_ptr<Tokenizer> tokenizer = LoadTokenizer(path, {.replace_ill_formed = true});
    tokenizer->Decode(tokenizer->Encode(text));
  });
}
