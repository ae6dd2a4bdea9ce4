// Runs a fuzz target over a folder of inputs, without libFuzzer: each file, each of its beginnings (up to 64 of them)
// and some copies with one byte changed. What the target does not survive ends the process.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "base/random.h"
#include "fuzz/fuzz_input.h"

namespace {

using Bytes = std::vector<std::uint8_t>;

int Run(const Bytes& bytes) { return LLVMFuzzerTestOneInput(bytes.data(), bytes.size()); }

int RunVariants(const Bytes& bytes) {
  constexpr std::size_t kBeginnings = 64;
  constexpr std::uint64_t kChanges = 256;
  int runs = 0;
  for (std::size_t i = 0; i < kBeginnings; ++i) {
    Run(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() * i / kBeginnings)));
    ++runs;
  }
  for (std::uint64_t i = 0; i < kChanges && !bytes.empty(); ++i) {
    Bytes changed = bytes;
    changed[trireme::RandomBelow(1, i, bytes.size())] = static_cast<std::uint8_t>(trireme::RandomBelow(2, i, 256));
    Run(changed);
    ++runs;
  }
  return runs;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
    return 2;
  }
  int files = 0;
  int runs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream file(entry.path(), std::ios::binary);
    const Bytes bytes{std::istreambuf_iterator<char>(file), {}};
    Run(bytes);
    runs += 1 + RunVariants(bytes);
    ++files;
  }
  std::printf("%d files, %d inputs\n", files, runs);
  return files > 0 ? 0 : 1;
}
