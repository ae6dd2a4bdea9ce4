// The steps of the embedding. Its parameters are numbered as the table lists them.
#include <cmath>

#include "lowering/module_plan.h"
#include "lowering/module_program.h"

namespace trireme {
namespace {

struct EmbeddingIds {
  explicit EmbeddingIds(const ModelConfig& model) {
    int next = token + 1;
    const auto take = [&next](bool present) { return present ? next++ : kNoId; };
    position = take(model.position == PositionChoice::kLearned);
    norm_gain = take(model.embedding_norm);
    norm_bias = take(model.embedding_norm && model.norm_bias);
  }
  int token = 0;
  int position = kNoId;
  int norm_gain = kNoId;
  int norm_bias = kNoId;
};

}  // namespace

ModuleProgram PlanEmbedding(const ModelConfig& model, const LocalSizes& sizes) {
  const EmbeddingIds ids(model);
  const EmbeddingPlan plan(model, sizes);
  const Place border{Area::kGiven, sizes.dtype, {sizes.outside, sizes.hidden}};
  ModuleProgram program;
  program.buffers = {{}, border, border, {}, plan.sum, plan.norm_statistics, plan.lookup, plan.grad_gathered};
  program.kept_bytes = plan.kept_bytes;
  program.scratch_bytes = plan.scratch_bytes;
  program.input_gradient = kNoId;
  program.tied = model.tie_embeddings ? ids.token : kNoId;
  const BufferId sum = plan.sum.present() ? kEmbeddingSum : kModuleOutput;
  const BufferId found = plan.lookup.present() ? kEmbeddingFound : sum;
  const BufferId gathered = plan.grad_gathered.present() ? kEmbeddingGathered : kGradOutput;
  const TensorId places = {static_cast<int>(BatchTensor::kPositions)};
  const float scale = model.embedding_multiplier > 0 ? static_cast<float>(model.embedding_multiplier)
                                                     : std::sqrt(static_cast<float>(model.hidden));

  std::vector<ProgramStep>& forward = program.forward;
  forward.push_back({LookupStep{.table = ids.token, .out = found}});
  if (sizes.tensor > 1) {
    forward.push_back({LeaveRegion(sizes, found, sum)});
  }
  if (model.ScalesEmbedding()) {
    forward.push_back({ScaleStep{.x = sum, .factor = scale}});
  }
  if (ids.position != kNoId) {
    forward.push_back({AddPositions<TensorId>{.x = {sum}, .table = {ids.position}, .positions = places}});
  }
  if (ids.norm_gain != kNoId) {
    forward.push_back({NormStep{.x = sum,
                                .normed = kModuleOutput,
                                .statistics = kEmbeddingStatistics,
                                .gain = ids.norm_gain,
                                .bias = ids.norm_bias}});
  }
  if (sizes.dropout) {
    program.evaluation = forward;
    forward.push_back({DropoutStep{.from = kModuleOutput, .to = kModuleOutput, .site = 0}});
  }
  if (sizes.frozen) {
    return program;
  }

  std::vector<ProgramStep>& backward = program.backward;
  if (sizes.dropout) {
    backward.push_back({DropoutStep{.from = kGradOutput, .to = kGradOutput, .site = 0}});
  }
  if (ids.norm_gain != kNoId) {
    backward.push_back({NormBackwardStep{.grad_normed = kGradOutput,
                                         .x = sum,
                                         .statistics = kEmbeddingStatistics,
                                         .grad_x = kGradOutput,
                                         .gain = ids.norm_gain,
                                         .bias = ids.norm_bias}});
  }
  if (ids.position != kNoId) {
    backward.push_back(
        {PositionsBackward<TensorId>{.grad = {kGradOutput}, .grad_table = {ids.position}, .positions = places}});
  }
  if (model.ScalesEmbedding()) {
    backward.push_back({ScaleStep{.x = kGradOutput, .factor = scale}});
  }
  if (sizes.sequence_parallel) {
    backward.push_back({EnterRegion(kGradOutput, gathered)});
  }
  backward.push_back({LookupBackwardStep{.grad_out = gathered, .table = ids.token}});
  return program;
}

}  // namespace trireme
