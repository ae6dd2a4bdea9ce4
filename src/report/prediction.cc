#include "report/prediction.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checksum.h"
#include "base/shape.h"
#include "planner/pricing/interval.h"
#include "run/recipe_keys.h"

namespace trireme {
namespace {

// The ranks of a run decide how many nodes it has, whatever the file says.
Cluster SizedFor(Cluster cluster, int ranks) {
  if (ranks > cluster.devices() && !cluster.device.is_host) {
    cluster.nodes = static_cast<int>(CeilDiv(ranks, cluster.devices_per_node));
  }
  if (cluster.node_link.bandwidth <= 0) {
    cluster.node_link = cluster.device_link;
  }
  return cluster;
}

// Steps of a run repeat each other within this.
constexpr double kRepeats = 0.05;

}  // namespace

RunPrediction::RunPrediction(const RunConfig& config, const PredictionContext& context)
    : config_(config),
      cluster_(SizedFor(context.cluster, config.layout.ranks())),
      state_(Resolve(context.stack, cluster_, "")),
      account_(config_.model),
      knowledge_(context.knowledge) {
  const PlanPoint point = PointOf(config.batch.global);
  spread_ = SpreadOf(point, account_, clock_);
}

PlanPoint RunPrediction::PointOf(std::int64_t global_batch) const {
  RunConfig config = config_;
  config.batch.global = global_batch;
  return {.cluster = cluster_, .stack = state_, .config = std::move(config)};
}

const StepEstimate& RunPrediction::EstimateOf(std::int64_t global_batch) {
  const auto found = estimates_.find(global_batch);
  if (found != estimates_.end()) {
    return found->second;
  }
  return estimates_.emplace(global_batch, EstimateTime(PointOf(global_batch), account_, clock_)).first->second;
}

double RunPrediction::Seconds(std::int64_t global_batch) { return factor_ * EstimateOf(global_batch).seconds; }
StepEstimate RunPrediction::Estimate(std::int64_t global_batch) {
  StepEstimate estimate = EstimateOf(global_batch);
  estimate.seconds = Seconds(global_batch);
  return estimate;
}

double RunPrediction::Low(std::int64_t global_batch) { return Seconds(global_batch) / (1 + spread_); }
double RunPrediction::High(std::int64_t global_batch) { return Seconds(global_batch) * (1 + spread_); }

StepCauses RunPrediction::Causes(std::int64_t global_batch) {
  StepCauses causes = PredictedCauses(PointOf(global_batch), EstimateOf(global_batch));
  for (const CauseField& field : CauseFields()) {
    causes.*field.member *= factor_;
  }
  return causes;
}

void RunPrediction::LearnFrom(std::int64_t global_batch, double seconds, std::int64_t steps) {
  factor_ = seconds / EstimateOf(global_batch).seconds;
  spread_ = kRepeats;
  knowledge_ = fmt::format("{} earlier step{} of this run", steps, steps == 1 ? "" : "s");
}

std::string RunPrediction::fingerprint() const {
  Hasher hasher;
  for (const RecipeKey& key : RecipeKeys()) {
    const bool timed =
        key.time == TimeEffect::kAlways || (key.time == TimeEffect::kInFloat8 && config_.train.dtype == "fp8");
    if (timed) {
      hasher.AddText(key.name);
      hasher.AddText(ToToml(GetKey(config_, key)));
    }
  }
  return ToHex(hasher.digest());
}

}  // namespace trireme
