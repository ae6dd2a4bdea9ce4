#include "data/dataset/indexed_dataset.h"

#include "data/samples/sample_source.h"
#include "fuzz/fuzz_input.h"

// Two bytes say how long the .idx is; the .bin follows it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  static const ScratchFolder folder;
  return Tolerate([&] {
    FuzzInput input(data, size);
    const std::uint64_t index_bytes = input.Number(2);
    folder.Write("set.idx", input.Take(index_bytes));
    const std::string path = folder.Write("set.bin", input.Rest());
    const IndexedDataset dataset(path);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(dataset.tokens()));
    dataset.Read(0, tokens);
    for (std::int64_t i = 0; i < dataset.sequences(); ++i) {
      if (dataset.SequenceStart(i) + dataset.SequenceLength(i) > dataset.tokens()) {
        __builtin_trap();
      }
    }
    for (std::int64_t at = 0; at < dataset.tokens(); at += 3) {
      if (dataset.DocumentStart(at) > at) {
        __builtin_trap();
      }
    }
    dataset.DocumentStartsBetween(0, dataset.tokens());
    const auto source = OpenSource(
        {.source = path, .sequence = 4, .split_weights = "8,1,1", .document_masks = true, .padding_masks = true});
    for (std::int64_t index = 0; index < 8; ++index) {
      source->Get(index);
    }
  });
}
