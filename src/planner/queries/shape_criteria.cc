#include "planner/queries/shape_criteria.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::int64_t kVocabularyStep = 128;

double CriterionNumber(const std::string& text, const std::string& word, double least, double most) {
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  Require(error == std::errc() && stop == text.data() + text.size() && number >= least && number <= most,
          "--criteria: '{}' in '{}' must be a number from {} to {}", text, word, least, most);
  return number;
}

std::int64_t CriterionCount(const std::string& text, const std::string& word, double least, double most) {
  const double number = CriterionNumber(text, word, least, most);
  Require(number == std::floor(number), "--criteria: '{}' in '{}' must be a whole number", text, word);
  return static_cast<std::int64_t>(number);
}

void ReadRatio(const std::string& value, const std::string& word, ShapeCriteria& criteria) {
  const std::size_t dots = value.find("..");
  Require(dots != std::string::npos, "--criteria: '{}' must be a range, such as ratio=90..180", word);
  criteria.least_ratio = CriterionNumber(value.substr(0, dots), word, 0, 1e6);
  criteria.most_ratio = CriterionNumber(value.substr(dots + 2), word, 0, 1e6);
  Require(criteria.least_ratio <= criteria.most_ratio, "--criteria: '{}' is no range: its end comes first", word);
}

void ReadHeads(const std::string& value, const std::string& word, ShapeCriteria& criteria) {
  std::istringstream sizes(value);
  for (std::string size; std::getline(sizes, size, ',');) {
    criteria.heads.push_back(CriterionCount(size, word, 8, 1024));
  }
  std::sort(criteria.heads.begin(), criteria.heads.end());
}

void ReadStages(const std::string& value, const std::string& word, ShapeCriteria& criteria) {
  constexpr std::string_view kEmbedding = "+embedding";
  criteria.with_embedding = value.ends_with(kEmbedding);
  const std::size_t digits = value.size() - (criteria.with_embedding ? kEmbedding.size() : 0);
  criteria.stages = CriterionCount(value.substr(0, digits), word, 1, 10'000);
}

}  // namespace

bool ShapeCriteria::HasRatioOf(const ModelConfig& model) const {
  const double ratio = static_cast<double>(model.hidden) / static_cast<double>(model.layers);
  return ratio >= least_ratio && (most_ratio == 0 || ratio <= most_ratio);
}

ShapeCriteria ParseCriteria(const std::string& text) {
  static const std::vector<std::string> kKnown = {"ratio", "heads", "stages", "vocabulary"};
  ShapeCriteria criteria;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string name = word.substr(0, equals);
    const std::string value = equals < word.size() ? word.substr(equals + 1) : "";
    if (name == "ratio") {
      ReadRatio(value, word, criteria);
    } else if (name == "heads") {
      ReadHeads(value, word, criteria);
    } else if (name == "stages") {
      ReadStages(value, word, criteria);
    } else if (name == "vocabulary") {
      criteria.vocabulary = CriterionCount(value, word, kVocabularyStep, 1 << 20);
      Require(criteria.vocabulary % kVocabularyStep == 0,
              "--criteria: '{}': matrix units want a vocabulary that is a multiple of {}", word, kVocabularyStep);
    } else {
      Fail(
          "--criteria: '{}' is none{}; known: ratio=90..180, heads=64,128, stages=12 or 12+embedding, "
          "vocabulary=1024",
          word, NearestMatch(name, kKnown));
    }
  }
  return criteria;
}

std::vector<std::int64_t> HeadSizes(const ShapeCriteria& criteria) {
  if (!criteria.heads.empty()) {
    return criteria.heads;
  }
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 64; size <= 256; size += 16) {
    sizes.push_back(size);
  }
  return sizes;
}

std::vector<std::int64_t> LayerCounts(const ShapeCriteria& criteria, std::int64_t wanted) {
  if (criteria.stages == 0) {
    return {std::max<std::int64_t>(1, wanted > 16 ? wanted / 2 * 2 : wanted)};
  }
  const std::int64_t more = criteria.with_embedding ? 2 : 0;
  const std::int64_t below = (wanted + more) / criteria.stages * criteria.stages - more;
  std::vector<std::int64_t> counts;
  for (const std::int64_t count : {below, below + criteria.stages}) {
    if (count >= 1) {
      counts.push_back(count);
    }
  }
  return counts;
}

}  // namespace trireme
