#include "checkpoint/hugging_face/safetensors.h"

#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  return Tolerate([&] {
    FuzzInput input(data, size);
    const Container file = MakeContainer(input);
    const SafetensorsHeader header = ParseSafetensorsHeader(file.header, file.file_bytes, "input");
    std::int64_t end = 0;
    for (const SafetensorsEntry& entry : header.entries) {
      const std::int64_t bytes = entry.count() * SafetensorsElementBytes(entry.dtype, "input");
      if (entry.begin != end || entry.end - entry.begin != bytes || header.Find(entry.name) == nullptr) {
        __builtin_trap();
      }
      end = entry.end;
    }
    // What was read is what would be written.
    const std::string again = FormatSafetensorsHeader(header.metadata, header.entries);
    ParseSafetensorsHeader(again, static_cast<std::int64_t>(again.size()) + end, "again");
  });
}
