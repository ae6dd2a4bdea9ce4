#include <algorithm>
#include <cctype>
#include <map>

#include "base/error.h"
#include "planner/pricing/interval.h"
#include "planner/validation/score_runs.h"
#include "planner/validation/scores.h"

namespace trireme {
namespace {

constexpr int kLeastRuns = 20;        // of a source that is scored by itself
constexpr int kLeastTimed = 3;        // of a set whose regret counts
constexpr double kSettledRanks = 64;  // beyond, pipelines of some programs do not run as designed
constexpr double kSurelyFull = 0.95;  // of the device
constexpr double kSurelyNot = 0.60;

using Members = std::vector<const Prediction*>;

bool Settled(const Prediction& prediction) {
  return prediction.run->pipeline.value_or(1) <= 1 || prediction.run->gpus.value_or(1) <= kSettledRanks;
}

template <typename Keep>
GroupScore ScoreWhere(const std::string& name, const Members& members, Keep keep) {
  Members kept;
  std::copy_if(members.begin(), members.end(), std::back_inserter(kept), keep);
  return ScoreOf(name, kept);
}

void CountFailures(const Members& members, SourceScore& score) {
  for (const Prediction* one : members) {
    const Failure failure = FailureOf(*one);
    if (failure == Failure::kMemory) {
      ++score.memory_failures;
      score.called += one->fits ? 0 : 1;
    }
    score.other_failures += failure == Failure::kOther ? 1 : 0;
    score.unclear_failures += failure == Failure::kUnknown ? 1 : 0;
    if (one->run->ran()) {
      ++score.ran;
      score.false_alarms += one->fits ? 0 : 1;
    }
  }
}

template <typename Keep>
RegretScore RegretOf(const Members& members, Keep keep) {
  Members kept;
  std::copy_if(members.begin(), members.end(), std::back_inserter(kept), keep);
  std::vector<double> regrets;
  std::vector<double> expected;
  for (const SetScore& set : SetsOf(kept)) {
    if (set.layouts >= kLeastTimed) {
      regrets.push_back(set.regret);
      expected.push_back(set.expected_regret);
    }
  }
  return {.sets = static_cast<int>(regrets.size()),
          .mean = Mean(regrets),
          .median = Median(regrets),
          .worst = regrets.empty() ? 0 : *std::max_element(regrets.begin(), regrets.end()),
          .expected = Mean(expected)};
}

SourceScore ScoreSource(const std::string& name, const Members& members) {
  SourceScore score{.all = ScoreOf(name, members)};
  if (!std::all_of(members.begin(), members.end(), [](const Prediction* one) { return Settled(*one); })) {
    score.settled =
        ScoreWhere("  one stage or at most 64 devices", members, [](const Prediction* one) { return Settled(*one); });
  }
  score.sick =
      static_cast<int>(std::count_if(members.begin(), members.end(), [](const Prediction* one) { return one->sick; }));
  if (score.sick > 0) {
    score.well = ScoreWhere(fmt::format("  without {} sick runs", score.sick), members,
                            [](const Prediction* one) { return !one->sick; });
  }
  CountFailures(members, score);
  score.regret = RegretOf(members, [](const Prediction*) { return true; });
  score.well_regret = RegretOf(members, [](const Prediction* one) { return !one->sick; });
  return score;
}

}  // namespace

Failure FailureOf(const Prediction& prediction) {
  if (!prediction.run->failed()) {
    return Failure::kNone;
  }
  if (prediction.exact > kSurelyFull * prediction.memory) {
    return Failure::kMemory;
  }
  return prediction.exact < kSurelyNot * prediction.memory ? Failure::kOther : Failure::kUnknown;
}

std::string SourceOf(const MeasuredRun& run) {
  std::string name = run.source;
  for (std::size_t at = name.find("-v"); at != std::string::npos; at = name.find("-v", at + 1)) {
    std::size_t end = at + 2;
    while (end < name.size() && (std::isdigit(static_cast<unsigned char>(name[end])) != 0 || name[end] == '.')) {
      ++end;
    }
    const bool release = name.find('.', at) < end;  // "v100" is a device
    if (release && (end == name.size() || name[end] == '-')) {
      name.erase(at, end - at);
      break;
    }
  }
  return name;
}

void ScoreSources(Validation& validation) {
  std::map<std::string, Members> sources;
  for (const Prediction& prediction : validation.predictions) {
    if (prediction.run->clean()) {
      sources[SourceOf(*prediction.run)].push_back(&prediction);
    }
  }
  Members few;
  for (const auto& [name, members] : sources) {
    if (static_cast<int>(members.size()) < kLeastRuns) {
      few.insert(few.end(), members.begin(), members.end());
    } else {
      validation.sources.push_back(ScoreSource(name, members));
    }
  }
  if (!few.empty()) {
    validation.sources.push_back(ScoreSource("sources under 20 runs", few));
  }
}

}  // namespace trireme
