#include "base/random.h"

namespace trireme {

std::uint64_t RandomKey(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char letter : name) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  }
  return CombineKeys(seed, hash);
}

}  // namespace trireme
