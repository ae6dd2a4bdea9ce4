// What every fuzz target shares. A target is one file with LLVMFuzzerTestOneInput: it hands the bytes to a parser and
// then uses what the parser let through, as the program would. An Error is the right answer to a bad file; anything
// else (a crash, another exception, a leak, a second of time) is a finding. tests/fuzz/CMakeLists.txt says how targets
// run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace trireme {

// The bytes of one input, taken from the front.
class FuzzInput {
 public:
  FuzzInput(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  // 0 when nothing is left.
  std::uint8_t Byte() {
    const std::string_view one = Take(1);
    return one.empty() ? 0 : static_cast<std::uint8_t>(one[0]);
  }
  // Little-endian, of up to 8 bytes.
  std::uint64_t Number(std::size_t bytes) {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      number |= static_cast<std::uint64_t>(Byte()) << (8 * i);
    }
    return number;
  }
  // At most `size` bytes.
  std::string_view Take(std::size_t size) {
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view Rest() { return Take(rest_.size()); }

 private:
  std::string_view rest_;
};

// Runs `use`; an Error ends it quietly.
template <typename Use>
int Tolerate(const Use& use) {
  try {
    use();
  } catch (const Error&) {
  }
  return 0;
}

// A folder in memory (/dev/shm) for parsers that open files themselves. One a process; removed at its end.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  // Replaces PATH/name and returns its path.
  std::string Write(const std::string& name, std::string_view bytes) const;
  void Remove(const std::string& name) const;

 private:
  std::string path_;
};

// u64 length, header, `data` zero bytes' worth of size: a safetensors file of which only the header is there.
struct Container {
  std::string header;  // with its length field
  std::int64_t file_bytes = 0;
};
// A first byte that is odd takes the rest as it is; an even one makes the length field and the file's size fit, so that
// mutations reach the parser behind them.
Container MakeContainer(FuzzInput& input);

}  // namespace trireme
