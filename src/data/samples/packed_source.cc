#include "data/samples/packed_source.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "data/samples/keyed_permutation.h"

namespace trireme {
namespace {

// Whole samples of long documents, and the rest of every document, in the order of the stream. A piece of one token
// has no target.
std::vector<DocumentPiece> CutDocuments(const TokenStore& store, const TokenRange& range, std::int64_t sequence) {
  std::vector<std::int64_t> starts{range.first};
  for (const std::int64_t start : store.DocumentStartsBetween(range.first, range.last)) {
    starts.push_back(start);
  }
  starts.push_back(range.last);
  std::vector<DocumentPiece> pieces;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    std::int64_t first = starts[i];
    for (; starts[i + 1] - first > sequence + 1; first += sequence) {
      pieces.push_back({.first = first, .tokens = sequence + 1});
    }
    if (starts[i + 1] - first > 1) {
      pieces.push_back({.first = first, .tokens = starts[i + 1] - first});
    }
  }
  return pieces;
}

}  // namespace

std::vector<std::vector<DocumentPiece>> PackBestFit(std::vector<DocumentPiece> pieces, std::int64_t room) {
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const DocumentPiece& a, const DocumentPiece& b) { return a.tokens > b.tokens; });
  std::vector<std::vector<DocumentPiece>> samples;
  std::map<std::int64_t, std::vector<std::size_t>> by_room;  // samples that have so much left; never empty
  for (const DocumentPiece& piece : pieces) {
    Require(piece.tokens <= room, "a piece of {} tokens does not fit into a sample of {}", piece.tokens, room);
    const auto fit = by_room.lower_bound(piece.tokens);
    std::size_t sample = samples.size();
    std::int64_t left = room - piece.tokens;
    if (fit == by_room.end()) {
      samples.emplace_back();
    } else {
      sample = fit->second.back();
      left = fit->first - piece.tokens;
      fit->second.pop_back();
      if (fit->second.empty()) {
        by_room.erase(fit);
      }
    }
    samples[sample].push_back(piece);
    if (left > 0) {
      by_room[left].push_back(sample);
    }
  }
  return samples;
}

PackedSource::PackedSource(std::unique_ptr<TokenStore> store, const SourceOptions& options)
    : store_(std::move(store)),
      sequence_(options.sequence),
      key_(RandomKey(options.seed, "packed sample order")),
      split_(options.split),
      document_masks_(options.document_masks),
      answers_only_(options.answers_only),
      vocabulary_(options.vocabulary > 0 ? options.vocabulary : store_->token_limit()),
      range_(SplitTokens(*store_, options.split, options.split_weights)) {
  RequireReadable(*store_, options);
  for (const std::vector<DocumentPiece>& sample :
       PackBestFit(CutDocuments(*store_, range_, sequence_), sequence_ + 1)) {
    pieces_.insert(pieces_.end(), sample.begin(), sample.end());
    ends_.push_back(pieces_.size());
  }
  Require(!ends_.empty(), "the {} split of '{}' has {} of its {} tokens and no document of two tokens or more", split_,
          store_->path(), range_.size(), store_->tokens());
}

std::string PackedSource::description() const {
  return fmt::format(
      "{}: {} tokens in {} documents; {} split: tokens {} to {}, packed into {} samples of {} an epoch, {:.1f} % "
      "padding",
      store_->path(), store_->tokens(), store_->documents(), split_, range_.first, range_.last, samples(), sequence_,
      100 * padding_share());
}

double PackedSource::padding_share() const {
  const auto filled = std::accumulate(pieces_.begin(), pieces_.end(), 0.0, [](double sum, const DocumentPiece& piece) {
    return sum + static_cast<double>(piece.tokens);
  });
  return 1 - filled / static_cast<double>(samples() * (sequence_ + 1));
}

std::span<const DocumentPiece> PackedSource::PiecesOf(std::size_t sample) const {
  const std::size_t first = sample == 0 ? 0 : ends_[sample - 1];
  return std::span(pieces_).subspan(first, ends_[sample] - first);
}

void PackedSource::Place(const DocumentPiece& piece, std::int64_t at, Sample& sample) const {
  const auto start = static_cast<std::size_t>(at);
  const auto count = static_cast<std::size_t>(piece.tokens);
  store_->Read(piece.first, std::span(sample.tokens).subspan(start, count));
  for (std::size_t i = start; i < start + count; ++i) {
    Require(sample.tokens[i] >= 0 && sample.tokens[i] < vocabulary_,
            "token {} at position {} of '{}' is outside the vocabulary of {}", sample.tokens[i],
            piece.first + static_cast<std::int64_t>(i - start), store_->path(), vocabulary_);
  }
  std::vector<std::uint8_t> answers(count, 1);
  if (answers_only_) {
    store_->AnswerMask(piece.first, answers);
  }
  for (std::size_t i = 1; i < count; ++i) {
    sample.weights[start + i - 1] = static_cast<float>(answers[i]);
  }
  if (document_masks_) {
    const std::size_t inputs = std::min(count, sample.document_starts.size() - std::min(start, sample.weights.size()));
    std::fill_n(sample.document_starts.begin() + at, inputs, static_cast<std::int32_t>(at));
  }
}

std::span<const DocumentPiece> PackedSource::PiecesAt(std::int64_t index) const {
  const auto samples = static_cast<std::uint64_t>(this->samples());
  const std::uint64_t epoch = static_cast<std::uint64_t>(index) / samples;
  const KeyedPermutation shuffle(samples, CombineKeys(key_, epoch));
  return PiecesOf(static_cast<std::size_t>(shuffle(static_cast<std::uint64_t>(index) % samples)));
}

std::vector<std::int64_t> PackedSource::DocumentLengths(std::int64_t index) const {
  if (!document_masks_) {
    return {sequence_};
  }
  std::vector<std::int64_t> lengths;
  std::int64_t left = sequence_;  // the last token of a full sample is a target alone
  for (const DocumentPiece& piece : PiecesAt(index)) {
    lengths.push_back(std::min(piece.tokens, left));
    left -= lengths.back();
  }
  return lengths;
}

Sample PackedSource::Get(std::int64_t index) const {
  Sample sample;
  sample.tokens.assign(static_cast<std::size_t>(sequence_) + 1, 0);
  sample.weights.assign(static_cast<std::size_t>(sequence_), 0.0F);
  if (document_masks_) {
    sample.document_starts.resize(static_cast<std::size_t>(sequence_));
    std::iota(sample.document_starts.begin(), sample.document_starts.end(), 0);  // padding sees itself alone
  }
  std::int64_t at = 0;
  for (const DocumentPiece& piece : PiecesAt(index)) {
    Place(piece, at, sample);
    at += piece.tokens;
  }
  return sample;
}

}  // namespace trireme
