// A model's forward pass as training computes it, cut over tensor and pipeline ranks: losses and logits of samples.
// What `trireme evaluate --pipeline` runs; InferenceModel has tensor ranks alone.
#pragma once

#include <cstdint>
#include <string>

#include "comm/rank_runner.h"
#include "infer/evaluate.h"
#include "infer/logits.h"
#include "infer/model_files.h"
#include "run/run_config.h"

namespace trireme {

struct StagedOptions {
  int tensor = 1;
  int pipeline = 1;
  std::string dtype = "fp32";  // fp32, bf16 or fp16
  std::int64_t length = 0;     // tokens of a sample, at most
  bool documents = false;      // samples tell their documents apart
};

// The run that stands for it: one sequence a micro batch. An Error when the layout cannot cut the model.
RunConfig RunOfStages(const ModelFiles& files, const StagedOptions& options);

// Samples [0, request.count) of at most run.model.sequence tokens, shorter ones padded behind their end. With a path
// writes their logits as WriteLogits does. Collective over the world, of run.layout.ranks() ranks; every rank gets the
// same report. Holds gradients and an optimizer's state beside the weights, as a training run does.
LossReport EvaluateInStages(const RunConfig& run, const std::string& weights, RankContext& context,
                            const LogitRequest& request, const Tokenizer* tokenizer);

}  // namespace trireme
