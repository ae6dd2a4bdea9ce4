// Small trained models in a folder of a test's own, and InferenceModels of them on thread ranks.
#pragma once

#include <functional>
#include <string>

#include "infer/inference_model.h"
#include "infer/model_files.h"
#include "run/run_config.h"
#include "scratch_directory.h"

namespace trireme {

// The parity bench's small model of a family (grouped queries for llama), `steps` steps trained on one rank under
// train.steps = steps, saved in the run folder `folder`. Returns the validation loss of the saved state.
double TrainSmallModel(const RunConfig& config, const std::string& folder);
RunConfig SmallModel(const std::string& family);

// Runs `body` on `ranks` thread ranks, each with its part of the model; results are rank 0's business.
struct SmallUse {
  InferenceOptions options;
  int ranks = 1;
};
void WithModel(const ModelFiles& files, const SmallUse& use,
               const std::function<void(InferenceModel& model, int rank)>& body);

}  // namespace trireme
