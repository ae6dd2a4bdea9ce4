#include "base/checksum.h"

#include <xxhash.h>

#include <new>

#include "base/error.h"

namespace trireme {
namespace {

Digest FromHash(const XXH128_hash_t& hash) { return {.high = hash.high64, .low = hash.low64}; }

int HexValue(char digit) {
  if (digit >= '0' && digit <= '9') {
    return digit - '0';
  }
  return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

}  // namespace

std::string ToHex(const Digest& digest) { return fmt::format("{:016x}{:016x}", digest.high, digest.low); }

Digest ParseDigest(std::string_view hex) {
  Digest digest;
  bool valid = hex.size() == 32;
  for (std::size_t i = 0; valid && i < hex.size(); ++i) {
    const int value = HexValue(hex[i]);
    valid = value >= 0;
    std::uint64_t& half = i < 16 ? digest.high : digest.low;
    half = (half << 4) | static_cast<std::uint64_t>(value);
  }
  Require(valid, "'{}' is not a digest: it must be 32 lower-case hexadecimal digits", hex.substr(0, 64));
  return digest;
}

Digest DigestOf(std::span<const std::byte> bytes) { return FromHash(XXH3_128bits(bytes.data(), bytes.size())); }

Digest DigestOf(std::string_view text) { return FromHash(XXH3_128bits(text.data(), text.size())); }

struct Hasher::State {
  State() : hash(XXH3_createState()) {
    if (hash == nullptr) {
      throw std::bad_alloc();
    }
    XXH3_128bits_reset(hash);
  }
  ~State() { XXH3_freeState(hash); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  XXH3_state_t* hash;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}
Hasher::~Hasher() = default;

void Hasher::Add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) {
    XXH3_128bits_update(state_->hash, bytes.data(), bytes.size());
  }
}

void Hasher::AddText(std::string_view text) {
  AddNumber(static_cast<std::int64_t>(text.size()));
  Add(std::as_bytes(std::span(text.data(), text.size())));
}

void Hasher::AddNumber(std::int64_t number) { Add(std::as_bytes(std::span(&number, 1))); }

Digest Hasher::digest() const { return FromHash(XXH3_128bits_digest(state_->hash)); }

}  // namespace trireme
