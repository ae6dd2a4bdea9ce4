// The steps of the head. Its parameters are numbered as the table lists them, a tied token table after its own.
#include "lowering/module_plan.h"
#include "lowering/module_program.h"

namespace trireme {
namespace {

class HeadLowering {
 public:
  HeadLowering(const ModelConfig& model, const LocalSizes& sizes)
      : model_(model), sizes_(sizes), norm_bias_(model.norm_bias ? 1 : kNoId), weight_(model.norm_bias ? 2 : 1) {
    program_.input_gradient = kModuleInput;
    program_.tied = model.tie_embeddings ? weight_ : kNoId;
  }

  ModuleProgram Lower(std::int64_t chunk) {
    const HeadPlan plan(sizes_, chunk);
    program_.buffers = {plan.input,
                        {},
                        {},
                        {},
                        plan.statistics,
                        plan.normed,
                        plan.gathered,
                        plan.logits,
                        plan.loss_statistics,
                        plan.losses,
                        plan.grad_inside,
                        plan.grad_normed,
                        plan.unused_gradients};
    program_.kept_bytes = plan.kept_bytes;
    program_.scratch_bytes = plan.scratch_bytes;
    SetChunk(chunk);
    Training();
    Evaluation();
    return std::move(program_);
  }

  ModuleProgram LowerInference(std::int64_t chunk) {
    GiveBuffers();
    SetChunk(chunk);
    out_ = &program_.forward;
    Norm();
    out_ = &program_.evaluation;
    Logits();
    Loss(false);
    return std::move(program_);
  }

  ModuleProgram LowerLogits() {
    GiveBuffers();
    out_ = &program_.forward;
    Logits();
    Emit(EnterRegion(kHeadAllLogits, kHeadAllLogits));
    return std::move(program_);
  }

 private:
  static constexpr int kNormGain = 0;

  void SetChunk(std::int64_t chunk) {
    program_.rows = sizes_.tokens;
    program_.chunk = chunk;
  }
  void GiveBuffers() { program_.buffers.assign(kHeadBuffers, {.area = Area::kGiven}); }

  void Training() {
    out_ = &program_.forward;
    Norm();
    Logits();
    Loss(true);
    ScaleLogits();  // which are their gradient now
    EmitChunked(ProductStep{.kind = ProductKind::kInputGradient,
                            .a = kHeadLogits,
                            .c = kHeadGradInside,
                            .weight = weight_,
                            .linear = BlockLinear::kHead,
                            .rows = sizes_.tokens,
                            .columns = sizes_.hidden,
                            .depth = sizes_.vocabulary});
    if (!sizes_.frozen) {
      EmitChunked(ProductStep{.kind = ProductKind::kWeightGradient,
                              .a = kHeadLogits,
                              .b = Inside(),
                              .weight = weight_,
                              .linear = BlockLinear::kHead,
                              .rows = sizes_.vocabulary,
                              .columns = sizes_.hidden,
                              .depth = sizes_.tokens});
    }
    Emit(LossSumStep{.losses = kHeadLosses});
    const BufferId grad_normed = sizes_.sequence_parallel ? kHeadGradNormed : kHeadGradInside;
    if (sizes_.tensor > 1) {
      Emit(LeaveRegion(sizes_, kHeadGradInside, grad_normed));
    }
    Emit(NormBackwardStep{.grad_normed = grad_normed,
                          .x = kModuleInput,
                          .statistics = kHeadStatistics,
                          .grad_x = grad_normed,
                          .gradients = sizes_.frozen ? kHeadUnusedGradients : kNoId,
                          .gain = kNormGain,
                          .bias = norm_bias_});
    Emit(CopyStep{.from = grad_normed, .to = kModuleInput});
  }

  void Evaluation() {
    out_ = &program_.evaluation;
    Norm();
    Logits();
    EmitChunked(ShowLogitsStep{.logits = kHeadLogits});
    Loss(false);
    Emit(LossSumStep{.losses = kHeadLosses});
  }

  void Norm() {
    Emit(NormStep{.x = kModuleInput,
                  .normed = kHeadNormed,
                  .statistics = kHeadStatistics,
                  .gain = kNormGain,
                  .bias = norm_bias_});
    if (sizes_.sequence_parallel) {
      Emit(EnterRegion(kHeadNormed, kHeadGathered));
    }
  }

  void Logits() {
    EmitChunked(ProductStep{.a = Inside(),
                            .c = kHeadLogits,
                            .weight = weight_,
                            .linear = BlockLinear::kHead,
                            .rows = sizes_.tokens,
                            .columns = sizes_.vocabulary,
                            .depth = sizes_.hidden});
    ScaleLogits();
    if (model_.logit_cap > 0) {
      EmitChunked(SoftCap<TensorId>{.logits = {kHeadLogits}});
    }
  }

  void ScaleLogits() {
    if (model_.logits_scaling != 1) {
      EmitChunked(ScaleStep{.x = kHeadLogits, .factor = static_cast<float>(1 / model_.logits_scaling)});
    }
  }

  void Loss(bool gradient) {
    const bool cut = sizes_.tensor > 1;
    if (cut || !gradient) {
      EmitChunked(LossStatisticsStep{.logits = kHeadLogits, .statistics = kHeadLossStatistics});
    }
    if (cut) {
      EmitChunked(
          CollectiveStep{.kind = CollectiveKind::kAllGather, .from = kHeadLossStatistics, .to = kHeadLossStatistics});
    }
    EmitChunked(CrossEntropyStep{
        .logits = kHeadLogits, .statistics = kHeadLossStatistics, .losses = kHeadLosses, .gradient = gradient});
  }

  // The norm's output of all tokens.
  BufferId Inside() const { return sizes_.sequence_parallel ? kHeadGathered : kHeadNormed; }
  void Emit(const StepWork& work) { out_->push_back({work}); }
  void EmitChunked(const StepWork& work) { out_->push_back({.work = work, .chunked = program_.chunk > 0}); }

  const ModelConfig& model_;
  const LocalSizes& sizes_;
  int norm_bias_;
  int weight_;
  ModuleProgram program_;
  std::vector<ProgramStep>* out_ = nullptr;
};

}  // namespace

ModuleProgram PlanHead(const ModelConfig& model, const LocalSizes& sizes, std::int64_t chunk) {
  return HeadLowering(model, sizes).Lower(chunk);
}

ModuleProgram LowerInferenceHead(const ModelConfig& model, const LocalSizes& sizes, std::int64_t chunk) {
  return HeadLowering(model, sizes).LowerInference(chunk);
}

ModuleProgram LowerInferenceLogits(const ModelConfig& model, const LocalSizes& sizes) {
  return HeadLowering(model, sizes).LowerLogits();
}

}  // namespace trireme
