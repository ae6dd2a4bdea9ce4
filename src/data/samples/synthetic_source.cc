#include "data/samples/synthetic_source.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "data/samples/data_split.h"

namespace trireme {
namespace {

constexpr std::uint64_t kSuccessors = 4;
constexpr std::int64_t kMostSymbols = 256;

}  // namespace

SyntheticSource::SyntheticSource(const SourceOptions& options)
    : symbols_(options.vocabulary > 0 ? std::min(options.vocabulary, kMostSymbols) : kMostSymbols),
      sequence_(options.sequence),
      chain_key_(RandomKey(options.seed, "synthetic chain")),
      draw_key_(CombineKeys(RandomKey(options.seed, "synthetic draw"),
                            static_cast<std::uint64_t>(SplitIndex(options.split)))) {
  Require(sequence_ > 0, "sequence {} must be positive", sequence_);
}

std::string SyntheticSource::description() const {
  return fmt::format("synthetic: second-order Markov chain over {} symbols, samples of {}", symbols_, sequence_);
}

Sample SyntheticSource::Get(std::int64_t index) const {
  const auto symbols = static_cast<std::uint64_t>(symbols_);
  const std::uint64_t key = CombineKeys(draw_key_, static_cast<std::uint64_t>(index));
  const auto length = static_cast<std::size_t>(sequence_) + 1;
  Sample sample;
  sample.tokens.resize(length);
  std::uint64_t before = RandomBelow(key, length, symbols);
  std::uint64_t last = RandomBelow(key, length + 1, symbols);
  for (std::size_t t = 0; t < length; ++t) {
    const std::uint64_t favourite = RandomBits(chain_key_, (before << 1) | 1) % kSuccessors;
    const std::uint64_t tenths = RandomBelow(key, t, 10);
    const std::uint64_t choice = tenths < 7 ? favourite : (favourite + tenths - 6) % kSuccessors;
    const std::uint64_t next = RandomBelow(chain_key_, ((last * kSuccessors + choice) << 1), symbols);
    sample.tokens[t] = static_cast<std::int32_t>(next);
    before = last;
    last = next;
  }
  return sample;
}

}  // namespace trireme
