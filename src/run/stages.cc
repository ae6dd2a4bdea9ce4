#include "run/stages.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error.h"

namespace trireme {
namespace {

std::string_view Trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \n\t");
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(" \n\t") - first + 1);
}

// The part of `text` before the next `separator`, which is removed from it.
std::string_view Next(std::string_view& text, char separator) {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return Trimmed(part);
}

bool MayChange(std::string_view key) {
  return key == "batch.global" || key == "model.sequence" || key.starts_with("layout.");
}

RunStage ParseStage(std::string_view part, const std::string& text) {
  RunStage stage;
  std::string_view settings = part;
  const std::string_view end = Next(settings, ':');
  const auto [rest, error] = std::from_chars(end.data(), end.data() + end.size(), stage.until);
  Require(error == std::errc() && rest == end.data() + end.size() && stage.until > 0 && end.size() < part.size(),
          "train.stages: '{}' in '{}' is no stage such as 1024: batch.global=16, layout.micro_batch=2", part, text);
  while (!Trimmed(settings).empty()) {
    const std::string_view setting = Next(settings, ',');
    const std::string_view key = Trimmed(setting.substr(0, setting.find('=')));
    Require(key.size() < setting.size() && MayChange(key),
            "train.stages: '{}' may not change along a run; batch.global, model.sequence and keys of layout may", key);
    stage.settings.emplace_back(setting);
  }
  return stage;
}

}  // namespace

std::vector<RunStage> ParseStages(const std::string& text) {
  std::vector<RunStage> stages;
  for (std::string_view rest = text; !Trimmed(rest).empty();) {
    const std::string_view part = Next(rest, ';');
    if (part.empty()) {
      continue;
    }
    stages.push_back(ParseStage(part, text));
    const std::int64_t before = stages.size() > 1 ? stages[stages.size() - 2].until : 0;
    Require(stages.back().until > before,
            "train.stages: a stage ends at sample {}, which is not after the end of the one before it, {}",
            stages.back().until, before);
  }
  stages.emplace_back();
  return stages;
}

std::size_t StageAt(const std::vector<RunStage>& stages, std::int64_t consumed_samples) {
  std::size_t stage = 0;
  while (stage + 1 < stages.size() && stages[stage].until <= consumed_samples) {
    ++stage;
  }
  return stage;
}

void RequireStages(const std::vector<RunStage>& stages, const std::vector<RunConfig>& configs) {
  if (stages.size() == 1) {
    return;
  }
  const RunConfig& last = configs.back();
  Require(last.train.tokens == 0 || last.train.samples > 0,
          "train.stages counts samples: give the length of the run as train.samples, not as train.tokens = {}",
          last.train.tokens);
  Require(last.train.samples == 0 || stages[stages.size() - 2].until < last.train.samples,
          "train.stages: the last change comes at sample {}, and the run ends at {}", stages[stages.size() - 2].until,
          last.train.samples);
  Require(last.batch.ramp_start == 0, "train.stages says the batches: leave batch.ramp_up out");
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const RunConfig& config = configs[i];
    Require(config.model.sequence == last.model.sequence || config.model.position != PositionChoice::kLearned,
            "train.stages: stage {} has sequences of {} and the recipe of {}, but '{}' learns a vector for each "
            "position; families with rotary positions or ALiBi can change it",
            i + 1, config.model.sequence, last.model.sequence, config.model.family);
  }
}

}  // namespace trireme
