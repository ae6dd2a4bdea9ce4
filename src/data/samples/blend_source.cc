#include "data/samples/blend_source.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/random.h"

namespace trireme {
namespace {

// Places out of `total` for each weight: at least one each, the rest by largest remainder.
std::vector<std::int64_t> Apportion(const std::vector<double>& weights, std::int64_t total) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const std::int64_t spare = total - static_cast<std::int64_t>(weights.size());
  std::vector<std::int64_t> places(weights.size(), 1);
  std::vector<std::pair<double, std::size_t>> remainders;
  std::int64_t given = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double ideal = std::max(0.0, weights[i] / sum * static_cast<double>(total) - 1.0);
    const auto whole = std::min(static_cast<std::int64_t>(ideal), spare - given);
    places[i] += whole;
    given += whole;
    remainders.emplace_back(static_cast<double>(whole) - ideal, i);
  }
  std::sort(remainders.begin(), remainders.end());
  for (std::size_t i = 0; given < spare; i = (i + 1) % remainders.size()) {
    ++places[remainders[i].second];
    ++given;
  }
  return places;
}

std::uint64_t ReverseSixteenBits(std::uint64_t value) {
  std::uint64_t reversed = 0;
  for (int bit = 0; bit < 16; ++bit) {
    reversed |= ((value >> bit) & 1U) << (15 - bit);
  }
  return reversed;
}

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): its sources are taken
BlendSource::BlendSource(std::vector<std::pair<double, std::unique_ptr<SampleSource>>> parts, std::uint64_t seed)
    : key_(RandomKey(seed, "data blend")) {
  Require(!parts.empty() && parts.size() <= 4096, "a blend has 1 to 4096 sources, not {}", parts.size());
  std::vector<double> weights;
  for (auto& [weight, source] : parts) {
    Require(std::isfinite(weight) && weight > 0, "weight {} of '{}' must be positive", weight, source->description());
    weights.push_back(weight);
    sources_.push_back(std::move(source));
  }
  ends_ = Apportion(weights, kBlock);
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
}

std::int64_t BlendSource::vocabulary() const {
  std::int64_t largest = 0;
  for (const auto& source : sources_) {
    largest = std::max(largest, source->vocabulary());
  }
  return largest;
}

std::string BlendSource::description() const {
  std::string text = fmt::format("blend of {} sources", sources_.size());
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    text += fmt::format("; {:.4f} {}", static_cast<double>(ends_[i] - begin) / static_cast<double>(kBlock),
                        sources_[i]->description());
    begin = ends_[i];
  }
  return text;
}

std::pair<std::size_t, std::int64_t> BlendSource::Locate(std::int64_t index) const {
  const std::int64_t block = index / kBlock;
  const auto place = static_cast<std::uint64_t>(index % kBlock);
  const std::uint64_t scramble = RandomBits(key_, static_cast<std::uint64_t>(block)) % kBlock;
  const auto point = static_cast<std::int64_t>(ReverseSixteenBits(place) ^ scramble);
  const auto found = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), point) - ends_.begin());
  const std::int64_t begin = found == 0 ? 0 : ends_[found - 1];
  return {found, block * (ends_[found] - begin) + point - begin};
}

Sample BlendSource::Get(std::int64_t index) const {
  const auto [source, local] = Locate(index);
  return sources_[source]->Get(local);
}

std::vector<std::int64_t> BlendSource::DocumentLengths(std::int64_t index) const {
  const auto [source, local] = Locate(index);
  return sources_[source]->DocumentLengths(local);
}

}  // namespace trireme
