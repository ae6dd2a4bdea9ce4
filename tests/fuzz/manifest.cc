#include "checkpoint/format/manifest.h"

#include "fuzz/fuzz_input.h"

// A first byte that is even puts the right digest behind the rest.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  return Tolerate([&] {
    FuzzInput input(data, size);
    const bool as_it_is = input.Byte() % 2 == 1;
    std::string text(input.Rest());
    if (!as_it_is) {
      const std::string digest = ToHex(DigestOf(text));
      text += ",\n \"digest\":\"" + digest + "\"}\n";
    }
    const Manifest manifest = ParseManifest(text, "input");
    const Manifest again = ParseManifest(FormatManifest(manifest), "again");
    if (again.tensors != manifest.tensors || again.shards != manifest.shards) {
      __builtin_trap();
    }
  });
}
