#include "planner/validation/score_runs.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/units.h"
#include "planner/pricing/interval.h"
#include "planner/validation/scores.h"

namespace trireme {
namespace {

// Rank correlation of two layouts is a coin; sets of fewer count for regret only.
constexpr int kLeastLayouts = 3;

}  // namespace

GroupScore ScoreOf(const std::string& name, const std::vector<const Prediction*>& predictions) {
  GroupScore score{.name = name};
  std::vector<double> errors;
  std::vector<double> biases;
  std::vector<double> memory_errors;
  std::vector<double> widths;
  int within = 0;
  for (const Prediction* prediction : predictions) {
    const MeasuredRun& run = *prediction->run;
    if (prediction->fitted_on || !run.ran()) {
      continue;
    }
    if (const auto measured = run.measured_seconds()) {
      const double error = prediction->seconds / *measured - 1;
      errors.push_back(std::abs(error));
      biases.push_back(error);
      widths.push_back((prediction->high - prediction->low) / 2 / prediction->seconds);
      within += *measured >= prediction->low && *measured <= prediction->high ? 1 : 0;
      score.days_only += run.seconds ? 0 : 1;
    }
    if (run.memory_gib) {
      memory_errors.push_back(std::abs(prediction->peak / kGibi / *run.memory_gib - 1));
    }
  }
  score.timed = static_cast<int>(errors.size());
  score.time_error = Mean(errors);
  score.time_bias = Mean(biases);
  score.remembered = static_cast<int>(memory_errors.size());
  score.memory_error = Mean(memory_errors);
  score.covered = errors.empty() ? 0 : static_cast<double>(within) / static_cast<double>(errors.size());
  score.half_width = Median(widths);
  return score;
}

namespace {

// Who chose did so in one state of software and site: runs before and after a change are different sets.
std::string SetKey(const Prediction& prediction) {
  const MeasuredRun& run = *prediction.run;
  const auto whole = [](const std::optional<double>& value) { return value ? std::llround(*value) : -1; };
  return fmt::format("{} {}x{}x{} v{} s{} {} gpus batch {} {} {}{}", run.source, whole(run.layers), whole(run.hidden),
                     whole(run.heads), whole(run.vocabulary), whole(run.sequence), whole(run.gpus),
                     whole(run.global_batch), run.dtype.empty() ? "?" : run.dtype, run.system,
                     prediction.slowed ? " (slow)" : "");
}

// One layout of a decision set: the mean of its repeats.
struct MeasuredChoice {
  const Prediction* first = nullptr;
  std::vector<double> predicted;
  std::vector<double> measured;
  bool fits = true;
  bool ran_out = false;
};

// What the choice with the fewest predicted seconds costs on average, against its best rival alone: no less.
double ExpectedRegretOf(const std::map<std::string, MeasuredChoice>& choices) {
  const Prediction* best = nullptr;
  for (const auto& [layout, choice] : choices) {
    if (!choice.measured.empty() && (best == nullptr || choice.first->seconds < best->seconds)) {
      best = choice.first;
    }
  }
  double expected = 0;
  for (const auto& [layout, choice] : choices) {
    const Prediction* other = choice.first;
    if (best == nullptr || other == best || choice.measured.empty() || !best->covariance || !other->covariance) {
      continue;
    }
    const double deviation = PairedDeviation(best->sensitivities, other->sensitivities, *best->covariance);
    expected = std::max(expected, ExpectedRegret(best->seconds, other->seconds, deviation));
  }
  return expected;
}

bool ScoreSet(const std::string& name, const std::map<std::string, MeasuredChoice>& choices, SetScore& score) {
  std::vector<double> predicted;
  std::vector<double> measured;
  double best = 0;
  for (const auto& [layout, choice] : choices) {
    const double seconds = Mean(choice.predicted);
    if (!choice.measured.empty()) {
      predicted.push_back(seconds);
      measured.push_back(Mean(choice.measured));
    }
    if (choice.fits && (best == 0 || seconds < best)) {
      best = seconds;
      score.chose_out_of_memory = choice.ran_out;
    }
  }
  score.name = name;
  score.layouts = static_cast<int>(predicted.size());
  if (score.layouts < 2) {
    return score.chose_out_of_memory || choices.size() > 1;
  }
  score.spearman = Spearman(predicted, measured);
  score.kendall = Kendall(predicted, measured);
  score.regret = Regret(predicted, measured);
  score.expected_regret = ExpectedRegretOf(choices);
  score.paired = PairedResiduals(predicted, measured);
  return true;
}

}  // namespace

std::vector<SetScore> SetsOf(const std::vector<const Prediction*>& predictions) {
  std::map<std::string, std::map<std::string, MeasuredChoice>> sets;
  for (const Prediction* one : predictions) {
    const MeasuredRun& run = *one->run;
    const bool failed = run.ran_out_of_memory() || run.failed();
    if (!run.clean() || one->fitted_on || (!run.measured_seconds() && !failed)) {
      continue;
    }
    MeasuredChoice& choice = sets[SetKey(*one)][one->layout];
    choice.first = choice.first == nullptr ? one : choice.first;
    choice.predicted.push_back(one->seconds);
    choice.fits = one->fits;
    choice.ran_out = choice.ran_out || failed;
    if (!failed) {
      choice.measured.push_back(*run.measured_seconds());
    }
  }
  std::vector<SetScore> scores;
  for (const auto& [name, choices] : sets) {
    SetScore score;
    if (choices.size() >= 2 && ScoreSet(name, choices, score)) {
      scores.push_back(score);
    }
  }
  return scores;
}

namespace {

void ScoreSets(Validation& validation) {
  std::vector<const Prediction*> all;
  for (const Prediction& prediction : validation.predictions) {
    all.push_back(&prediction);
  }
  std::vector<double> spearmans;
  std::vector<double> kendalls;
  std::vector<double> regrets;
  std::vector<double> paired;
  for (const SetScore& score : SetsOf(all)) {
    paired.insert(paired.end(), score.paired.begin(), score.paired.end());
    validation.chosen_out_of_memory += score.chose_out_of_memory ? 1 : 0;
    if (score.layouts >= 2) {
      regrets.push_back(score.regret);
    }
    if (score.layouts >= kLeastLayouts) {
      spearmans.push_back(score.spearman);
      kendalls.push_back(score.kendall);
    }
    validation.sets.push_back(score);
  }
  validation.mean_spearman = Mean(spearmans);
  validation.mean_kendall = Mean(kendalls);
  validation.mean_regret = Mean(regrets);
  validation.median_regret = Median(regrets);
  validation.paired_error = Mean(paired);
  validation.pairs = static_cast<int>(paired.size());
  validation.worst_regret = regrets.empty() ? 0 : *std::max_element(regrets.begin(), regrets.end());
}

}  // namespace

void ScoreRuns(Validation& validation) {
  std::map<std::string, std::vector<const Prediction*>> groups;
  std::vector<const Prediction*> all;
  std::vector<const Prediction*> suspect;
  for (const Prediction& prediction : validation.predictions) {
    const MeasuredRun& run = *prediction.run;
    if (!run.clean()) {
      suspect.push_back(&prediction);
      continue;
    }
    groups[run.source + " on " + prediction.cluster].push_back(&prediction);
    all.push_back(&prediction);
    if (run.ran_out_of_memory()) {
      ++validation.out_of_memory;
      validation.found += prediction.fits ? 0 : 1;
    } else if (run.ran() && !prediction.fits) {
      ++validation.false_alarms;
    }
  }
  for (const auto& [name, members] : groups) {
    validation.groups.push_back(ScoreOf(name, members));
  }
  validation.groups.push_back(ScoreOf("all clean runs", all));
  validation.suspect = ScoreOf("suspect runs", suspect);
  ScoreSets(validation);
  ScoreSources(validation);
}

}  // namespace trireme
