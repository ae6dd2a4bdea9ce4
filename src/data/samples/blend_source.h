// A weighted blend of sources. Samples come in blocks of 65,536, in which source d has exactly n_d places (its weight,
// rounded by largest remainder, at least one). Place p of a block goes to the source whose cumulated range holds the
// bit-reversed p (xored with a key of the block), so any run of samples holds the sources in proportion, give or take
// a few, and the source's own index follows without counting.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/samples/sample_source.h"

namespace trireme {

class BlendSource final : public SampleSource {
 public:
  static constexpr std::int64_t kBlock = 65536;

  // Weights are positive and finite, 1 to 4,096 sources.
  BlendSource(std::vector<std::pair<double, std::unique_ptr<SampleSource>>> parts, std::uint64_t seed);

  std::int64_t vocabulary() const override;
  std::string description() const override;
  Sample Get(std::int64_t index) const override;
  std::vector<std::int64_t> DocumentLengths(std::int64_t index) const override;

  // Which source gives sample `index`, and which of its samples that is.
  std::pair<std::size_t, std::int64_t> Locate(std::int64_t index) const;

 private:
  std::vector<std::unique_ptr<SampleSource>> sources_;
  std::vector<std::int64_t> ends_;  // cumulated places in a block; the last is kBlock
  std::uint64_t key_;
};

}  // namespace trireme
