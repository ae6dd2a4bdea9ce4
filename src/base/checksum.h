// XXH3-128 digests: how files and tensors are told apart. Fast (about 9 GB/s a core), not cryptographic: they find
// accidents, not forgeries. Values do not depend on the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const Digest&) const = default;
};

// 32 lower-case hexadecimal digits, and back; an Error for anything else.
std::string ToHex(const Digest& digest);
Digest ParseDigest(std::string_view hex);

Digest DigestOf(std::span<const std::byte> bytes);
Digest DigestOf(std::string_view text);

// The digest of bytes that come in parts: equal to DigestOf their concatenation.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void Add(std::span<const std::byte> bytes);
  // A string and its length, so that two strings in a row never read as two others.
  void AddText(std::string_view text);
  void AddNumber(std::int64_t number);
  // The digest of all that was added so far; adding may go on.
  Digest digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
