// The steps of the head. Its parameters are numbered as the table lists them, a tied token table after its own.
#include "lowering/module_plan.h"
#include "lowering/module_program.h"

namespace trireme {
namespace {

class HeadLowering {
 public:
  HeadLowering(const ModelConfig& model, const LocalSizes& sizes, std::int64_t chunk)
      : model_(model), sizes_(sizes), norm_bias_(model.norm_bias ? 1 : kNoId), weight_(model.norm_bias ? 2 : 1) {
    const HeadPlan plan(sizes, chunk);
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
    program_.input_gradient = kModuleInput;
    program_.tied = model.tie_embeddings ? weight_ : kNoId;
    program_.rows = sizes.tokens;
    program_.chunk = chunk;
  }

  ModuleProgram Lower() {
    Training();
    Evaluation();
    return std::move(program_);
  }

 private:
  // Buffers after those of every program.
  enum : BufferId {
    kStatistics = kGradInput + 1,
    kNormed,
    kGathered,
    kLogits,
    kLossStatistics,
    kLosses,
    kGradInside,
    kGradNormed,
    kUnusedGradients,
  };
  static constexpr int kNormGain = 0;

  void Training() {
    out_ = &program_.forward;
    Logits();
    Loss(true);
    EmitChunked(ProductStep{.kind = ProductKind::kInputGradient,
                            .a = kLogits,
                            .c = kGradInside,
                            .weight = weight_,
                            .linear = BlockLinear::kHead,
                            .rows = sizes_.tokens,
                            .columns = sizes_.hidden,
                            .depth = sizes_.vocabulary});
    if (!sizes_.frozen) {
      EmitChunked(ProductStep{.kind = ProductKind::kWeightGradient,
                              .a = kLogits,
                              .b = Inside(),
                              .weight = weight_,
                              .linear = BlockLinear::kHead,
                              .rows = sizes_.vocabulary,
                              .columns = sizes_.hidden,
                              .depth = sizes_.tokens});
    }
    Emit(LossSumStep{.losses = kLosses});
    const BufferId grad_normed = sizes_.sequence_parallel ? kGradNormed : kGradInside;
    if (sizes_.tensor > 1) {
      Emit(LeaveStep{.from = kGradInside, .to = grad_normed});
    }
    Emit(NormBackwardStep{.grad_normed = grad_normed,
                          .x = kModuleInput,
                          .statistics = kStatistics,
                          .grad_x = grad_normed,
                          .gradients = sizes_.frozen ? kUnusedGradients : kNoId,
                          .gain = kNormGain,
                          .bias = norm_bias_});
    Emit(CopyStep{.from = grad_normed, .to = kModuleInput});
  }

  void Evaluation() {
    out_ = &program_.evaluation;
    Logits();
    EmitChunked(ShowLogitsStep{.logits = kLogits});
    Loss(false);
    Emit(LossSumStep{.losses = kLosses});
  }

  void Logits() {
    Emit(NormStep{
        .x = kModuleInput, .normed = kNormed, .statistics = kStatistics, .gain = kNormGain, .bias = norm_bias_});
    if (sizes_.sequence_parallel) {
      Emit(EnterStep{.from = kNormed, .to = kGathered});
    }
    EmitChunked(ProductStep{.a = Inside(),
                            .c = kLogits,
                            .weight = weight_,
                            .linear = BlockLinear::kHead,
                            .rows = sizes_.tokens,
                            .columns = sizes_.vocabulary,
                            .depth = sizes_.hidden});
    if (model_.logit_cap > 0) {
      EmitChunked(SoftCapStep{.logits = kLogits});
    }
  }

  void Loss(bool gradient) {
    const bool cut = sizes_.tensor > 1;
    if (cut || !gradient) {
      EmitChunked(LossStatisticsStep{.logits = kLogits, .statistics = kLossStatistics});
    }
    if (cut) {
      EmitChunked(GatherPartsStep{.parts = kLossStatistics});
    }
    EmitChunked(
        CrossEntropyStep{.logits = kLogits, .statistics = kLossStatistics, .losses = kLosses, .gradient = gradient});
  }

  // The norm's output of all tokens.
  BufferId Inside() const { return sizes_.sequence_parallel ? kGathered : kNormed; }
  void Emit(const StepWork& work) { out_->push_back({work}); }
  void EmitChunked(const StepWork& work) { out_->push_back({.work = work, .chunked = true}); }

  const ModelConfig& model_;
  const LocalSizes& sizes_;
  int norm_bias_;
  int weight_;
  ModuleProgram program_;
  std::vector<ProgramStep>* out_ = nullptr;
};

}  // namespace

ModuleProgram PlanHead(const ModelConfig& model, const LocalSizes& sizes, std::int64_t chunk) {
  return HeadLowering(model, sizes, chunk).Lower();
}

}  // namespace trireme
