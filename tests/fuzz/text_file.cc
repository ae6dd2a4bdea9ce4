#include <span>

#include "data/prepare/batch_encoder.h"
#include "data/prepare/prepare_journal.h"
#include "data/prepare/text_stream.h"
#include "fuzz/fuzz_input.h"

// Text or JSON lines for `data prepare`, packed or not, and its journal.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  static const ScratchFolder folder;
  const std::string path = folder.Write("input", FuzzInput(data, size).Rest());
  Tolerate([&] { ReadJournal(path); });
  return Tolerate([&] {
    // A small file may unpack to gigabytes; readers take it in bounded parts, as here.
    constexpr std::size_t kMost = 1 << 16;
    TextBatch batch{.text = std::string(kMost, '\0'), .format = TextFormat::kJson};
    batch.text.resize(OpenTextStream(path)->Read(std::span(batch.text)));
    ForEachText(batch, path, "text", [](std::string_view) {});
  });
}
