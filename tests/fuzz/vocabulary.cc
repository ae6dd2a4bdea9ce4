#include "data/tokenizer/tokenizer_files.h"
#include "fuzz/fuzz_input.h"

// Two bytes say how long the vocab.json is, one how long the text; merges.txt follows.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  static const ScratchFolder folder;
  return Tolerate([&] {
    FuzzInput input(data, size);
    const std::uint64_t vocabulary_bytes = input.Number(2);
    const std::uint64_t text_bytes = input.Number(1);
    const std::string path = folder.Write("vocab.json", input.Take(vocabulary_bytes));
    const std::string text(input.Take(text_bytes));
    folder.Write("merges.txt", input.Rest());
    const BpeTokenizer tokenizer(ReadVocabularyAndMerges(path), {.replace_ill_formed = true});
    tokenizer.Decode(tokenizer.Encode(text));
  });
}
