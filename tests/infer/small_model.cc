#include "infer/small_model.h"

#include "comm/rank_runner.h"
#include "operate/training_loop.h"
#include "parity/parity.h"

namespace trireme {
namespace {

class ValidationWatcher : public TrainingObserver {
 public:
  void Validated(std::int64_t, double loss) override { loss_ = loss; }
  double loss() const { return loss_; }

 private:
  double loss_ = 0;
};

}  // namespace

RunConfig SmallModel(const std::string& family) {
  RunConfig config = parity::SmallRun(family);
  config.model.layers = 2;
  if (family == "llama") {
    config.model.kv_heads = 6;
  }
  config.train.steps = 4;
  config.validation = {.every = 4, .samples = 10};
  return config;
}

double TrainSmallModel(const RunConfig& config, const std::string& folder) {
  Validate(config, config.layout.ranks());
  const auto train = OpenRunSource(config, "train");
  const auto validation = OpenRunSource(config, "validation");
  ValidationWatcher watcher;
  RunThreadRanks(config.layout.ranks(), {.kind = "cpu"}, [&](RankContext& context) {
    RunTraining(config, context, {.train = train.get(), .validation = validation.get()}, {.run_folder = folder},
                &watcher);
  });
  return watcher.loss();
}

void WithModel(const ModelFiles& files, const SmallUse& use,
               const std::function<void(InferenceModel& model, int rank)>& body) {
  RunThreadRanks(use.ranks, {.kind = "cpu"}, [&](RankContext& context) {
    InferenceModel model(files.model, files.weights, context, use.options);
    body(model, context.world.rank());
  });
}

}  // namespace trireme
