// Samples from a token stream: window w holds the tokens [first + w T, first + w T + T], so that every token but the
// first is a target once an epoch. Epoch e visits the windows under a permutation keyed by (seed, e).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/dataset/token_store.h"
#include "data/samples/data_split.h"
#include "data/samples/sample_source.h"

namespace trireme {

class WindowSource final : public SampleSource {
 public:
  // Takes sequence, seed, vocabulary, split, split_weights and the masks from `options`. An Error says what would do if
  // the split has no whole window or the vocabulary is too small for the storage to be checked against.
  WindowSource(std::unique_ptr<TokenStore> store, const SourceOptions& options);

  std::int64_t vocabulary() const override { return vocabulary_; }
  std::string description() const override;
  Sample Get(std::int64_t index) const override;
  std::vector<std::int64_t> DocumentLengths(std::int64_t index) const override;

  std::int64_t samples() const override { return windows_; }
  const TokenRange& range() const { return range_; }

 private:
  // The first token of the window that `index` visits.
  std::int64_t FirstTokenOf(std::int64_t index) const;
  void Check(const Sample& sample, std::int64_t first, std::size_t count) const;
  // Leaves the weights of answers alone; the others become 0.
  void MaskQuestions(std::int64_t first, std::size_t count, Sample& sample) const;
  void MaskDocuments(std::int64_t first, std::size_t count, Sample& sample) const;

  std::unique_ptr<TokenStore> store_;
  std::int64_t sequence_;
  std::uint64_t key_;
  std::string split_;
  bool document_masks_;
  bool answers_only_;
  std::int64_t vocabulary_;
  TokenRange range_;
  std::int64_t windows_ = 0;
};

}  // namespace trireme
