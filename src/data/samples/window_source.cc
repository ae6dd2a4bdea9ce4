#include "data/samples/window_source.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "base/shape.h"
#include "data/samples/keyed_permutation.h"

namespace trireme {

WindowSource::WindowSource(std::unique_ptr<TokenStore> store, const SourceOptions& options)
    : store_(std::move(store)),
      sequence_(options.sequence),
      key_(RandomKey(options.seed, "data window order")),
      split_(options.split),
      document_masks_(options.document_masks),
      answers_only_(options.answers_only),
      vocabulary_(options.vocabulary > 0 ? options.vocabulary : store_->token_limit()),
      range_(SplitTokens(*store_, options.split, options.split_weights)) {
  RequireReadable(*store_, options);
  const std::int64_t targets = std::max<std::int64_t>(range_.size() - 1, 0);
  windows_ = options.padding_masks ? CeilDiv(targets, sequence_) : targets / sequence_;
  Require(windows_ > 0, "the {} split of '{}' has {} of its {} tokens, too few for a sample of {} + 1", split_,
          store_->path(), range_.size(), store_->tokens(), sequence_);
}

std::string WindowSource::description() const {
  return fmt::format("{}: {} tokens in {} documents; {} split: tokens {} to {}, {} samples of {} an epoch",
                     store_->path(), store_->tokens(), store_->documents(), split_, range_.first, range_.last, windows_,
                     sequence_);
}

std::int64_t WindowSource::FirstTokenOf(std::int64_t index) const {
  const auto windows = static_cast<std::uint64_t>(windows_);
  const std::uint64_t epoch = static_cast<std::uint64_t>(index) / windows;
  const KeyedPermutation shuffle(windows, CombineKeys(key_, epoch));
  const auto window = static_cast<std::int64_t>(shuffle(static_cast<std::uint64_t>(index) % windows));
  return range_.first + window * sequence_;
}

std::vector<std::int64_t> WindowSource::DocumentLengths(std::int64_t index) const {
  if (!document_masks_) {
    return {sequence_};
  }
  // Padding goes on with the last document.
  const std::int64_t first = FirstTokenOf(index);
  std::vector<std::int64_t> lengths;
  std::int64_t begin = first;
  for (const std::int64_t start : store_->DocumentStartsBetween(first, std::min(first + sequence_, range_.last))) {
    lengths.push_back(start - begin);
    begin = start;
  }
  lengths.push_back(first + sequence_ - begin);
  return lengths;
}

Sample WindowSource::Get(std::int64_t index) const {
  const std::int64_t first = FirstTokenOf(index);
  const auto count = static_cast<std::size_t>(std::min(sequence_ + 1, range_.last - first));
  Sample sample;
  sample.tokens.resize(static_cast<std::size_t>(sequence_) + 1);
  store_->Read(first, std::span(sample.tokens).first(count));
  Check(sample, first, count);
  if (count < sample.tokens.size()) {
    sample.weights.assign(static_cast<std::size_t>(sequence_), 1.0F);
    std::fill(sample.weights.begin() + static_cast<std::ptrdiff_t>(count) - 1, sample.weights.end(), 0.0F);
  }
  if (document_masks_) {
    MaskDocuments(first, count, sample);
  }
  if (answers_only_) {
    MaskQuestions(first, count, sample);
  }
  return sample;
}

void WindowSource::MaskQuestions(std::int64_t first, std::size_t count, Sample& sample) const {
  std::vector<std::uint8_t> answers(count);
  store_->AnswerMask(first, answers);
  if (sample.weights.empty()) {
    sample.weights.assign(static_cast<std::size_t>(sequence_), 1.0F);
  }
  for (std::size_t i = 1; i < count; ++i) {
    sample.weights[i - 1] *= static_cast<float>(answers[i]);
  }
}

void WindowSource::Check(const Sample& sample, std::int64_t first, std::size_t count) const {
  for (std::size_t i = 0; i < count; ++i) {
    Require(sample.tokens[i] >= 0 && sample.tokens[i] < vocabulary_,
            "token {} at position {} of '{}' is outside the vocabulary of {}", sample.tokens[i],
            first + static_cast<std::int64_t>(i), store_->path(), vocabulary_);
  }
}

void WindowSource::MaskDocuments(std::int64_t first, std::size_t count, Sample& sample) const {
  sample.document_starts.assign(static_cast<std::size_t>(sequence_), 0);
  const auto starts = store_->DocumentStartsBetween(first, first + static_cast<std::int64_t>(count));
  if (starts.empty()) {
    return;
  }
  if (sample.weights.empty()) {
    sample.weights.assign(static_cast<std::size_t>(sequence_), 1.0F);
  }
  for (const std::int64_t start : starts) {
    const auto position = static_cast<std::size_t>(start - first);
    sample.weights[position - 1] = 0.0F;
    if (position < sample.document_starts.size()) {
      std::fill(sample.document_starts.begin() + static_cast<std::ptrdiff_t>(position), sample.document_starts.end(),
                static_cast<std::int32_t>(position));
    }
  }
}

}  // namespace trireme
