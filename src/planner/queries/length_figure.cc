#include "planner/queries/length_figure.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/error.h"
#include "base/units.h"
#include "planner/pricing/step_estimate.h"

namespace trireme {
namespace {

LengthPoint PriceLength(const SearchRequest& request, const ParallelLayout& layout, std::int64_t tokens) {
  LengthPoint point{.tokens = tokens};
  SearchRequest asked = request;
  asked.config.model.sequence = tokens;
  try {
    const Candidate candidate = Price(asked, layout);
    PipelineClock clock;
    const StepTerms terms = EstimateTime(PointOf(asked, layout), ModelAccount(asked.config.model), clock).terms;
    point.seconds = candidate.seconds;
    point.attention = terms.attention / candidate.seconds;
    point.context = terms.context / candidate.seconds;
    point.peak = candidate.peak;
    point.fits = Fits(request, candidate);
  } catch (const Error& error) {
    point.refusal = error.what();
  }
  return point;
}

}  // namespace

std::vector<std::int64_t> ParseLengths(const std::string& text) {
  std::vector<std::int64_t> lengths;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const bool digits = !word.empty() && word.size() <= 9 && word.find_first_not_of("0123456789") == std::string::npos;
    Require(digits && std::stoll(word) > 0, "--sequences '{}': '{}' is no number of tokens; give a list such as {}",
            text, word, "8192,32768,131072");
    lengths.push_back(std::stoll(word));
  }
  Require(!lengths.empty(), "--sequences '{}' names no length; give a list such as 8192,32768,131072", text);
  return lengths;
}

std::vector<LengthPoint> PriceLengths(const SearchRequest& request, const ParallelLayout& layout,
                                      const std::vector<std::int64_t>& lengths) {
  std::vector<LengthPoint> points;
  points.reserve(lengths.size());
  for (const std::int64_t tokens : lengths) {
    points.push_back(PriceLength(request, layout, tokens));
  }
  return points;
}

std::string LengthFigure(const std::vector<LengthPoint>& points) {
  constexpr double kBar = 24;
  double least = HUGE_VAL;
  double fullest = 0;
  for (const LengthPoint& point : points) {
    least = point.seconds > 0 ? std::min(least, point.seconds) : least;
    fullest = std::max(fullest, point.peak);
  }
  std::string text = fmt::format("\n{:>9} {:>9} {:>10} {:>8}  {:<24} {:>7}  {}\n", "tokens", "s/step", "attention",
                                 "context", "a mark: twice the time", "GiB", "memory");
  for (const LengthPoint& point : points) {
    if (point.seconds <= 0) {
      text += fmt::format("{:>9}  {}\n", point.tokens, point.refusal);
      continue;
    }
    const auto doublings = static_cast<std::size_t>(std::min(kBar, 1 + std::round(std::log2(point.seconds / least))));
    const auto filled = static_cast<std::size_t>(std::max(1.0, std::round(kBar * point.peak / fullest)));
    text += fmt::format("{:>9} {:>9.2f} {:>8.1f} % {:>6.1f} %  {:<24} {:>7.1f}  {}{}\n", point.tokens, point.seconds,
                        100 * point.attention, 100 * point.context, std::string(doublings, '#'), point.peak / kGibi,
                        std::string(filled, '#'), point.fits ? "" : " does not fit");
  }
  return text;
}

}  // namespace trireme
