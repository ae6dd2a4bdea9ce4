#include "fuzz/fuzz_input.h"
#include "infer/evaluate.h"
#include "infer/multiple_choice.h"

// Questions with choices, a JSON document a line, and samples as lines of token ids.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  static const ScratchFolder folder;
  const std::string path = folder.Write("lines", FuzzInput(data, size).Rest());
  Tolerate([&] { ReadTokenLines(path, 1000); });
  return Tolerate([&] { ReadQuestions(path); });
}
