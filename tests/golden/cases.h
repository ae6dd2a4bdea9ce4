// Models and layouts that golden files are about.
#pragma once

#include <string>
#include <vector>

#include "family_features.h"
#include "model/model_config.h"
#include "topology/layout.h"

namespace trireme::golden {

struct NamedLayout {
  std::string name;
  ParallelLayout layout;
};

inline constexpr Recompute kRecomputes[] = {Recompute::kNone, Recompute::kLight, Recompute::kSelective,
                                            Recompute::kFull};

// OLMoE is a family of models with experts, whose programs tests/nn looks into.
inline std::vector<ModelFamily> DenseFamilies() {
  std::vector<ModelFamily> families = ModelFamilies();
  std::erase_if(families, [](const ModelFamily& family) { return family.name == "olmoe"; });
  return families;
}

// A model of two layers that tensor and context degrees of 2 and 4 can cut.
inline ModelConfig SmallModel(const std::string& family) {
  ModelConfig config;
  config.family = family;
  config.layers = 2;
  config.hidden = 64;
  config.heads = 16;
  config.ffn = 128;
  config.vocabulary = 90;
  config.sequence = 16;
  UseFeatures(config);
  return Completed(config);
}

// Cuts of a block: what tensor, sequence and context parallelism change in its program.
inline std::vector<NamedLayout> BlockLayouts() {
  return {{"one rank", {.micro_batch = 2}},
          {"tp2", {.tensor = 2, .micro_batch = 2}},
          {"tp2 sp", {.tensor = 2, .sequence_parallel = true, .micro_batch = 2}},
          {"cp2 all-gather", {.context = 2}},
          {"cp2 ulysses", {.context = 2, .context_kind = ContextKind::kUlysses}},
          {"cp2 ring", {.context = 2, .context_kind = ContextKind::kRing}},
          {"tp2 sp cp4 ulysses+ring",
           {.tensor = 2,
            .context = 4,
            .sequence_parallel = true,
            .context_kind = ContextKind::kUlyssesRing,
            .ulysses = 2}}};
}

}  // namespace trireme::golden
