// Samples of whole documents: short ones are packed into samples of T + 1 tokens by best fit, and none crosses from one
// sample into the next. A document longer than a sample is cut into whole samples, each of which begins with the last
// token of the one before, and a rest that is packed. What is left of a sample is padding, whose targets weigh 0 and
// whose positions see themselves alone. Epoch e visits the samples under a permutation keyed by (seed, e).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/dataset/token_store.h"
#include "data/samples/data_split.h"
#include "data/samples/sample_source.h"

namespace trireme {

// Consecutive tokens of one document.
struct DocumentPiece {
  std::int64_t first = 0;
  std::int64_t tokens = 0;
  bool operator==(const DocumentPiece&) const = default;
};

// Best fit, longest pieces first: each goes where it leaves the least room, equal ones in their order. Pieces longer
// than `room` are not allowed. The result lists each sample's pieces in the order in which they were placed.
std::vector<std::vector<DocumentPiece>> PackBestFit(std::vector<DocumentPiece> pieces, std::int64_t room);

class PackedSource final : public SampleSource {
 public:
  // As WindowSource. 16 bytes of memory for each document and each sample.
  PackedSource(std::unique_ptr<TokenStore> store, const SourceOptions& options);

  std::int64_t vocabulary() const override { return vocabulary_; }
  std::string description() const override;
  Sample Get(std::int64_t index) const override;
  std::vector<std::int64_t> DocumentLengths(std::int64_t index) const override;

  std::int64_t samples() const override { return static_cast<std::int64_t>(ends_.size()); }
  // The share of all samples' tokens that no document fills.
  double padding_share() const;

 private:
  std::span<const DocumentPiece> PiecesOf(std::size_t sample) const;
  // The sample that `index` visits.
  std::span<const DocumentPiece> PiecesAt(std::int64_t index) const;
  void Place(const DocumentPiece& piece, std::int64_t at, Sample& sample) const;

  std::unique_ptr<TokenStore> store_;
  std::int64_t sequence_;
  std::uint64_t key_;
  std::string split_;
  bool document_masks_;
  bool answers_only_;
  std::int64_t vocabulary_;
  TokenRange range_;
  std::vector<DocumentPiece> pieces_;  // sample by sample
  std::vector<std::size_t> ends_;      // of each sample's pieces
};

}  // namespace trireme
