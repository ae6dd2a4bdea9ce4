// Presets against the number of parameters that each release says of itself.
#include <gtest/gtest.h>

#include <map>

#include "run/run_config.h"

namespace trireme {
namespace {

// From model cards, papers and the files themselves; an output that is tied counts once.
const std::map<std::string, std::int64_t>& Released() {
  static const std::map<std::string, std::int64_t> released = {
      {"gemma-2-27b", 27'227'128'320},   {"gemma-2-2b", 2'614'341'888},
      {"gemma-2-9b", 9'241'705'984},     {"gemma-3-1b", 999'885'952},
      {"gemma-3-270m", 268'098'176},     {"gemma-3-4b", 3'880'263'168},
      {"gpt-neox-20b", 20'554'567'680},  {"llama-3.1-405b", 405'853'388'800},
      {"llama-3.1-70b", 70'553'706'496}, {"llama-3.1-8b", 8'030'261'248},
      {"llama-3.2-1b", 1'235'814'400},   {"llama-3.2-3b", 3'212'749'824},
      {"mistral-7b", 7'241'732'096},     {"mistral-nemo-12b", 12'247'782'400},
      {"mpt-7b", 6'649'286'656},         {"nemotron-minitron-4b", 4'190'509'056},
      {"olmo-2-13b", 13'716'198'400},    {"olmo-2-1b", 1'484'916'736},
      {"olmo-2-7b", 7'298'617'344},      {"opt-1.3b", 1'315'758'080},
      {"opt-125m", 125'239'296},         {"opt-13b", 12'853'473'280},
      {"opt-6.7b", 6'658'473'984},       {"phi-3-medium", 13'960'238'080},
      {"phi-3-mini", 3'821'079'552},     {"phi-4-mini", 3'836'021'760},
      {"pythia-1.4b", 1'414'647'808},    {"pythia-12b", 11'846'072'320},
      {"pythia-160m", 162'322'944},      {"pythia-1b", 1'011'781'632},
      {"pythia-2.8b", 2'775'208'960},    {"pythia-410m", 405'334'016},
      {"pythia-6.9b", 6'857'302'016},    {"pythia-70m", 70'426'624},
      {"qwen2.5-0.5b", 494'032'768},     {"qwen2.5-1.5b", 1'543'714'304},
      {"qwen2.5-14b", 14'770'033'664},   {"qwen2.5-32b", 32'763'876'352},
      {"qwen2.5-3b", 3'085'938'688},     {"qwen2.5-72b", 72'706'203'648},
      {"qwen2.5-7b", 7'615'616'512},     {"qwen3-0.6b", 596'049'920},
      {"qwen3-1.7b", 1'720'574'976},     {"qwen3-14b", 14'768'307'200},
      {"qwen3-32b", 32'762'123'264},     {"qwen3-4b", 4'022'468'096},
      {"qwen3-8b", 8'190'735'360},       {"smollm2-1.7b", 1'711'376'384},
      {"smollm2-135m", 134'515'008},     {"smollm3-3b", 3'075'098'624},
      {"smollm2-360m", 361'821'120},
  };
  return released;
}

TEST(ReleasedSizes, PresetsHaveThem) {
  for (const auto& [preset, parameters] : Released()) {
    const Recipe recipe = ParseRecipe("model.preset = '" + preset + "'", preset, {}, {TRIREME_SOURCE_DIR "/models"});
    EXPECT_EQ(ParameterCount(recipe.config.model), parameters) << preset;
  }
}

}  // namespace
}  // namespace trireme
