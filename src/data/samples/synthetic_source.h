// Samples that need no file and that a model can learn: a sparse second-order Markov chain. After (a, b) one of four
// successors of b follows; which of the four is likely (0.7 against 0.1 each) depends on a. Knowing b alone gives a
// loss of ln 4 = 1.386, knowing a too gives 0.940, nothing gives ln(symbols).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/samples/sample_source.h"

namespace trireme {

class SyntheticSource final : public SampleSource {
 public:
  // Least expected loss in nats a token.
  static constexpr double kEntropy = 0.9404;

  explicit SyntheticSource(const SourceOptions& options);
  // min(vocabulary of the model, 256).
  std::int64_t vocabulary() const override { return symbols_; }
  std::string description() const override;
  Sample Get(std::int64_t index) const override;
  std::vector<std::int64_t> DocumentLengths(std::int64_t /*index*/) const override { return {sequence_}; }

 private:
  std::int64_t symbols_;
  std::int64_t sequence_;
  std::uint64_t chain_key_;
  std::uint64_t draw_key_;
};

}  // namespace trireme
