#include "planner/queries/shapes.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/shape.h"
#include "base/units.h"
#include "planner/queries/layout_words.h"
#include "planner/search/at_most.h"

namespace trireme {
namespace {

constexpr std::int64_t kVocabularyUnit = 128;

// The request's model with another shape; feed-forward by the family's rule.
ModelConfig Reshaped(const ModelConfig& base, std::int64_t layers, std::int64_t hidden, std::int64_t head) {
  ModelConfig model = base;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = hidden / head;
  model.ffn = 0;
  model.vocabulary = RoundUp(base.vocabulary, kVocabularyUnit);
  // Grouped queries stay grouped, by 8 key heads where they can be.
  const bool grouped = base.kv_heads != base.heads;
  model.kv_heads = grouped && model.heads % 8 == 0 ? 8 : 0;
  return Completed(model, true);
}

SearchRequest RequestOf(const SearchRequest& request, const ModelConfig& model) {
  SearchRequest one = request;
  one.config.model = model;
  one.keep = 1;
  one.tie = 0;
  one.schedule = request.schedule ? request.schedule : std::optional<std::string>("1f1b");
  return one;
}

// Whether some layout fits, on the devices of the request or, where they may be idle, on fewer.
AtMostResult SearchForOne(const SearchRequest& request) {
  return request.may_idle ? SearchUntilOneFits(request) : SearchAllocation(request);
}

// Its seconds are 0 where none fits.
Candidate BestOf(const SearchResult& found) { return found.ranked.empty() ? Candidate{} : found.ranked.front(); }

// What kept most layouts from being possible, device memory aside.
std::string MainRefusal(const SearchResult& found) {
  std::string reason = "no layout has the keys that are held";
  std::int64_t most = 0;
  for (const auto& [why, count] : found.refused) {
    if (why != kOutOfDeviceMemory && why != kOutOfHostMemory && count > most) {
      reason = why;
      most = count;
    }
  }
  return reason;
}

bool RanOutOfMemory(const SearchResult& found) {
  return found.refused.contains(kOutOfDeviceMemory) || found.refused.contains(kOutOfHostMemory);
}

std::int64_t LayersFor(const ModelConfig& base, std::int64_t hidden, std::int64_t head, std::int64_t parameters) {
  const std::int64_t one = ParameterCount(Reshaped(base, 1, hidden, head));
  const std::int64_t block = ParameterCount(Reshaped(base, 2, hidden, head)) - one;
  return std::llround(static_cast<double>(parameters - one + block) / static_cast<double>(block));
}

}  // namespace

std::int64_t ParseSize(const std::string& text) {
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  Require(error == std::errc() && std::isfinite(number) && number > 0,
          "'{}' is no model size; write it as 200B, 1.3B or 760M", text);
  const std::string unit(stop, text.data() + text.size());
  double scale = 0;
  if (unit.empty()) {
    scale = 1;
  } else if (unit == "M" || unit == "m") {
    scale = 1e6;
  } else if (unit == "B" || unit == "b") {
    scale = 1e9;
  } else if (unit == "T" || unit == "t") {
    scale = 1e12;
  }
  Require(scale > 0 && number * scale >= 1e6 && number * scale <= 1e14,
          "'{}' is no model size between 1M and 100T; write it as 200B, 1.3B or 760M", text);
  return std::llround(number * scale);
}

std::vector<ShapeProposal> SearchShapes(const SearchRequest& asked, std::int64_t parameters, int keep,
                                        const ShapeCriteria& criteria) {
  SearchRequest request = asked;
  request.config.model.vocabulary = RoundUp(asked.config.model.vocabulary, criteria.vocabulary);
  std::vector<ShapeProposal> proposals;
  const double ideal = std::cbrt(static_cast<double>(parameters) / 12 * 170);
  const std::int64_t unit = ideal < 4096 ? 128 : 512;
  const auto from = static_cast<std::int64_t>(0.75 * ideal) / unit * unit;
  const auto to = static_cast<std::int64_t>(1.35 * ideal) / unit * unit;
  for (std::int64_t hidden = std::max(from, unit); hidden <= to; hidden += unit) {
    for (const std::int64_t head : HeadSizes(criteria)) {
      if (hidden % head != 0) {
        continue;
      }
      const std::int64_t wanted = LayersFor(request.config.model, hidden, head, parameters);
      for (const std::int64_t layers : LayerCounts(criteria, wanted)) {
        ShapeProposal proposal{.model = Reshaped(request.config.model, layers, hidden, head)};
        proposal.parameters = ParameterCount(proposal.model);
        const double off = static_cast<double>(proposal.parameters) / static_cast<double>(parameters) - 1;
        if (std::abs(off) > 0.04 || !criteria.HasRatioOf(proposal.model)) {
          continue;
        }
        const SearchRequest one = RequestOf(request, proposal.model);
        const AtMostResult most = SearchAllocation(one);
        proposal.best = BestOf(most.found);
        proposal.idle = IdleText(most, one);
        if (proposal.best.seconds > 0) {
          proposals.push_back(std::move(proposal));
        }
      }
    }
  }
  std::sort(proposals.begin(), proposals.end(),
            [](const ShapeProposal& a, const ShapeProposal& b) { return a.best.model_tflops > b.best.model_tflops; });
  if (proposals.size() > static_cast<std::size_t>(std::max(keep, 1))) {
    proposals.resize(static_cast<std::size_t>(std::max(keep, 1)));
  }
  return proposals;
}

ShapeProposal LargestModel(const SearchRequest& request) {
  const auto shape = [&](std::int64_t hidden) {
    return Reshaped(request.config.model, std::max<std::int64_t>(2, RoundUp(hidden / 170, 2)), hidden,
                    hidden >= 1024 ? 128 : 64);
  };
  ShapeProposal largest;
  SearchResult failed;  // of the last shape that has no layout
  // A shape may have too few layers for the stages that a small batch asks for: then larger ones are tried.
  const auto is_too_large = [&](std::int64_t hidden) {
    ShapeProposal proposal{.model = shape(hidden)};
    const SearchResult found = SearchForOne(RequestOf(request, proposal.model)).found;
    proposal.best = BestOf(found);
    proposal.parameters = ParameterCount(proposal.model);
    if (proposal.best.seconds > 0) {
      largest = proposal.parameters > largest.parameters ? proposal : largest;
      return false;
    }
    failed = found;
    return RanOutOfMemory(found);
  };
  // Doubling to a hidden size that does not fit, then halving the distance.
  std::int64_t low = 0;
  std::int64_t high = 512;
  while (high <= (1 << 18) && !is_too_large(high)) {
    low = high;
    high *= 2;
  }
  constexpr std::int64_t kStep = 256;
  while (high - low > kStep && high <= (1 << 18)) {
    const std::int64_t middle = (low + high) / 2 / kStep * kStep;
    if (middle == low) {
      break;
    }
    (is_too_large(middle) ? high : low) = middle;
  }
  Require(largest.parameters > 0, "no model of the family fits {} devices of '{}': {}", request.devices,
          request.cluster.name,
          RanOutOfMemory(failed)
              ? fmt::format("the smallest that they can divide, of hidden size {}, is too large", high)
              : MainRefusal(failed));
  if (request.may_idle) {
    const SearchRequest one = RequestOf(request, largest.model);
    const AtMostResult most = SearchAtMost(one);
    largest.best = BestOf(most.found);
    largest.idle = IdleText(most, one);
  }
  return largest;
}

LongestSequence FindLongestSequence(const SearchRequest& request) {
  constexpr std::int64_t kShortest = 1024;
  constexpr std::int64_t kMost = std::int64_t{1} << 24;  // model.sequence's limit
  LongestSequence longest;
  std::string refusal;
  const auto fits = [&](std::int64_t tokens) {
    ModelConfig model = request.config.model;
    model.sequence = tokens;
    const SearchResult found = SearchForOne(RequestOf(request, model)).found;
    const Candidate best = BestOf(found);
    if (best.seconds > 0) {
      longest = {.tokens = tokens, .too_long = longest.too_long, .best = best};
    } else {
      longest.too_long = tokens;
      refusal = RanOutOfMemory(found) ? "out of memory" : MainRefusal(found);
    }
    return best.seconds > 0;
  };
  std::int64_t low = 0;
  std::int64_t high = kShortest;
  while (high <= kMost && fits(high)) {
    low = high;
    high *= 2;
  }
  Require(low > 0, "not even sequences of {} tokens fit {} devices of '{}': {}", kShortest, request.devices,
          request.cluster.name, refusal);
  const std::int64_t step = low / 16;
  while (high <= kMost && high - low > step) {
    const std::int64_t middle = low + (high - low) / 2 / step * step;
    (fits(middle) ? low : high) = middle;
  }
  if (request.may_idle) {
    ModelConfig model = request.config.model;
    model.sequence = longest.tokens;
    const SearchRequest one = RequestOf(request, model);
    const AtMostResult most = SearchAtMost(one);
    longest.best = BestOf(most.found);
    longest.idle = IdleText(most, one);
  }
  return longest;
}

std::string ToText(const LongestSequence& longest) {
  const Candidate& best = longest.best;
  const std::string idle = longest.idle.empty() ? "" : longest.idle + "\n";
  return fmt::format("{} tokens fit: {}, {:.2f} s/step, {:.0f} tokens/s, {:.1f} GiB a device\n{}{}", longest.tokens,
                     NamedLayout(best.layout), best.seconds, best.tokens_per_second, best.peak / kGibi, idle,
                     longest.too_long > 0 ? fmt::format("{} do not, in any layout\n", longest.too_long)
                                          : "no longer sample can be asked for\n");
}

std::string ToText(const std::vector<ShapeProposal>& proposals) {
  std::string text = fmt::format("{:>9} {:>7} {:>7} {:>6} {:>6} {:>6} {:>9} {:>10} {:>9} {:>7}  {}\n", "size", "layers",
                                 "hidden", "ratio", "heads", "head", "vocab", "s/step", "TFLOP/s", "GiB", "layout");
  for (const ShapeProposal& one : proposals) {
    text += fmt::format("{:>8.1f}B {:>7} {:>7} {:>6.0f} {:>6} {:>6} {:>9} {:>10.2f} {:>9.1f} {:>7.1f}  {}\n",
                        static_cast<double>(one.parameters) / 1e9, one.model.layers, one.model.hidden,
                        static_cast<double>(one.model.hidden) / static_cast<double>(one.model.layers), one.model.heads,
                        one.model.head_size(), one.model.vocabulary, one.best.seconds, one.best.model_tflops,
                        one.best.peak / kGibi, NamedLayout(one.best.layout));
    text += one.idle.empty() ? "" : "          " + one.idle + "\n";
  }
  return text;
}

}  // namespace trireme
