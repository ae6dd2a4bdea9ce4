// What a proposed shape must have besides its size: `plan --search-shape SIZE --criteria "…"`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/model_config.h"

namespace trireme {

struct ShapeCriteria {
  double least_ratio = 0;           // of hidden to layers
  double most_ratio = 0;            // 0: any
  std::vector<std::int64_t> heads;  // sizes of a head; empty: 64 to 256 in steps of 16
  std::int64_t stages = 0;          // that divide the layers; 0: any number, even above 16
  // Embedding and head count as a layer each where the stages are cut, as in BLOOM: 70 + 2 layers on 12 stages.
  bool with_embedding = false;
  std::int64_t vocabulary = 128;  // the vocabulary is padded to a multiple of it

  bool HasRatioOf(const ModelConfig& model) const;
};

// "ratio=90..180 heads=64,128 stages=12+embedding vocabulary=1024": any of them, in any order. An Error names the word
// that is none.
ShapeCriteria ParseCriteria(const std::string& text);

// Sizes of a head to propose, and numbers of layers nearest to `wanted`, ascending.
std::vector<std::int64_t> HeadSizes(const ShapeCriteria& criteria);
std::vector<std::int64_t> LayerCounts(const ShapeCriteria& criteria, std::int64_t wanted);

}  // namespace trireme
