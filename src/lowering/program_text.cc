#include "lowering/program_text.h"

#include <fmt/core.h>

#include <string_view>

namespace trireme {
namespace {

std::string_view Name(Area area) {
  switch (area) {
    case Area::kAbsent:
      return "unused";
    case Area::kKept:
      return "kept";
    case Area::kScratch:
      return "scratch";
    case Area::kGiven:
      return "given";
    case Area::kWeights:
      return "weights";
  }
  return "?";
}

std::string_view Name(ProductKind kind) {
  switch (kind) {
    case ProductKind::kForward:
      return "forward";
    case ProductKind::kInputGradient:
      return "input_gradient";
    case ProductKind::kWeightGradient:
      return "weight_gradient";
  }
  return "?";
}

std::string_view Name(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return "none";
    case Epilogue::kGelu:
      return "gelu";
    case Epilogue::kGeluGradient:
      return "gelu_gradient";
    case Epilogue::kResidual:
      return "residual";
  }
  return "?";
}

// The text of one step. Absent operands and choices that are off are left out.
class StepWriter {
 public:
  explicit StepWriter(const BlockDescription& block) : block_(block) {}

  std::string TextOf(const ProgramStep& step) {
    std::visit(*this, step.work);
    Flag("recomputed", step.recomputed);
    Flag("weight_part", step.weight_part).Flag("chunked", step.chunked);
    return std::move(text_);
  }

  void operator()(const SumStep& s) {
    Begin("sum").Buffer("x", s.x).Buffer("branch", s.branch).Buffer("sum", s.sum);
    Parameter("branch_bias", s.branch_bias).Site(s.site);
  }
  void operator()(const NormStep& s) {
    Begin("norm").Buffer("x", s.x).Buffer("branch", s.branch).Buffer("sum", s.sum).Buffer("normed", s.normed);
    Buffer("statistics", s.statistics).Parameter("gamma", s.gain).Parameter("beta", s.bias);
    Parameter("branch_bias", s.branch_bias).Site(s.site).Buffer("largest", s.largest);
  }
  void operator()(const NormBackwardStep& s) {
    Begin("norm_backward").Buffer("grad_normed", s.grad_normed).Buffer("x", s.x).Buffer("statistics", s.statistics);
    Buffer("grad_residual", s.grad_residual).Buffer("grad_x", s.grad_x).Buffer("normed", s.normed);
    Buffer("gradients", s.gradients).Number("norm", s.norm);
    Parameter("gamma", s.gain).Parameter("beta", s.bias).Buffer("largest", s.largest);
  }
  void operator()(const EnterStep& s) {
    Begin("enter").Buffer("from", s.from).Buffer("to", s.to).Flag("in_place", s.in_place);
  }
  void operator()(const LeaveStep& s) { Begin("leave").Buffer("from", s.from).Buffer("to", s.to); }
  void operator()(const ProductStep& s) {
    Begin("matmul ");
    text_ += fmt::format("{} {}", Name(s.kind),
                         s.linear == BlockLinear::kHead ? "head" : Float8ProductsText(SetOf(s.linear)));
    Buffer("a", s.a).Buffer("b", s.b).Buffer("c", s.c).Parameter("weight", s.weight).Parameter("bias", s.bias);
    if (s.epilogue != Epilogue::kNone) {
      Word("epilogue", Name(s.epilogue));
    }
    Buffer("auxiliary", s.auxiliary).Buffer("scale_a", s.scale_a).Buffer("scale_b", s.scale_b);
    Buffer("largest", s.largest).Flag("added", s.added).Flag("copied", s.copied);
    if (s.scale != 1) {
      text_ += fmt::format(" scale={:.9g}", s.scale);
    }
    text_ += fmt::format(" {}x{}x{}", s.rows, s.columns, s.depth);
  }
  void operator()(const QuantizeStep& s) {
    Begin("quantize").Buffer("from", s.from).Parameter("weight", s.weight).Buffer("rows", s.rows);
    Buffer("columns", s.columns).Buffer("scale", s.scale).Buffer("largest", s.largest).Parameter("bias", s.bias);
    Flag("once", s.once).Buffer("guess", s.guess);
  }
  void operator()(const HeadNormStep& s) {
    Begin("head_norm").Buffer("x", s.x).Buffer("out", s.out).Buffer("sums", s.sums);
    Parameter("query_gamma", s.query_gain).Parameter("key_gamma", s.key_gain);
    Flag("together", s.together).Flag("again", s.again).Flag("exchanged", s.exchanged);
  }
  void operator()(const HeadNormBackwardStep& s) {
    Begin("head_norm_backward").Buffer("grad", s.grad).Buffer("x", s.x).Buffer("sums", s.sums);
    Buffer("products", s.products).Buffer("query_gradient", s.query_gradient).Buffer("key_gradient", s.key_gradient);
    Parameter("query_gamma", s.query_gain).Parameter("key_gamma", s.key_gain);
    Flag("together", s.together).Flag("exchanged", s.exchanged);
  }
  void operator()(const RotaryStep& s) { Begin("rotary").Buffer("qkv", s.qkv).Flag("inverse", s.inverse); }
  void operator()(const GatherKeysStep& s) { Begin("gather_keys").Buffer("qkv", s.qkv).Buffer("kv", s.kv); }
  void operator()(const ReduceKeysStep& s) {
    Begin("reduce_keys").Buffer("grad_kv", s.grad_kv).Buffer("grad_qkv", s.grad_qkv);
  }
  void operator()(const SwapHeadsStep& s) {
    Begin("swap_heads").Buffer("from", s.from).Buffer("to", s.to).Buffer("staging", s.staging);
    Flag("to_heads", s.to_heads).Flag("packed", s.packed);
  }
  void operator()(const RingAttentionStep& s) {
    Begin("ring_attention").Buffer("qkv", s.qkv).Buffer("out", s.out).Buffer("statistics", s.statistics);
    Buffer("scratch", s.scratch);
  }
  void operator()(const RingAttentionBackwardStep& s) {
    Begin("ring_attention_backward").Buffer("qkv", s.qkv).Buffer("out", s.out).Buffer("statistics", s.statistics);
    Buffer("grad_out", s.grad_out).Buffer("grad_qkv", s.grad_qkv).Buffer("scratch", s.scratch);
  }
  void operator()(const AttentionStep& s) {
    Begin("attention").Buffer("qkv", s.qkv).Buffer("out", s.out).Buffer("statistics", s.statistics);
    Buffer("kv", s.kv).Buffer("weights", s.weights).Buffer("scores", s.scores);
  }
  void operator()(const AttentionBackwardStep& s) {
    Begin("attention_backward").Buffer("qkv", s.qkv).Buffer("out", s.out).Buffer("statistics", s.statistics);
    Buffer("grad_out", s.grad_out).Buffer("grad_qkv", s.grad_qkv).Buffer("kv", s.kv).Buffer("grad_kv", s.grad_kv);
    Buffer("weights", s.weights).Buffer("scores", s.scores);
  }
  void operator()(const ActivationStep& s) {
    Begin("activation").Buffer("from", s.from).Buffer("to", s.to).Buffer("largest", s.largest);
  }
  void operator()(const ActivationBackwardStep& s) {
    Begin("activation_backward").Buffer("grad_out", s.grad_out).Buffer("from", s.from);
    Buffer("grad_from", s.grad_from).Buffer("largest", s.largest);
  }
  void operator()(const DropoutStep& s) {
    Begin("dropout").Buffer("from", s.from).Buffer("to", s.to).Site(s.site).Flag("own_rows", s.own_rows);
  }
  void operator()(const BiasGradientStep& s) {
    Begin("bias_gradient").Buffer("rows", s.rows).Parameter("bias", s.bias).Flag("own_rows", s.own_rows);
  }
  void operator()(const ClearStep& s) { Begin("clear").Buffer("buffer", s.buffer); }
  void operator()(const AddGradientStep& s) {
    Begin("add_gradient").Buffer("from", s.from).Number("row", s.row).Parameter("parameter", s.parameter);
  }
  void operator()(const LookupStep& s) { Begin("lookup").Parameter("table", s.table).Buffer("out", s.out); }
  void operator()(const LookupBackwardStep& s) {
    Begin("lookup_backward").Buffer("grad_out", s.grad_out).Parameter("table", s.table);
  }
  void operator()(const PositionsStep& s) { Begin("positions").Buffer("x", s.x).Parameter("table", s.table); }
  void operator()(const PositionsBackwardStep& s) {
    Begin("positions_backward").Buffer("grad", s.grad).Parameter("table", s.table);
  }
  void operator()(const ScaleStep& s) {
    Begin("scale").Buffer("x", s.x);
    text_ += fmt::format(" factor={:.9g}", s.factor);
  }
  void operator()(const CopyStep& s) { Begin("copy").Buffer("from", s.from).Buffer("to", s.to); }
  void operator()(const SoftCapStep& s) { Begin("soft_cap").Buffer("logits", s.logits); }
  void operator()(const ShowLogitsStep& s) { Begin("show_logits").Buffer("logits", s.logits); }
  void operator()(const LossStatisticsStep& s) {
    Begin("loss_statistics").Buffer("logits", s.logits).Buffer("statistics", s.statistics);
  }
  void operator()(const GatherPartsStep& s) { Begin("gather_parts").Buffer("parts", s.parts); }
  void operator()(const CrossEntropyStep& s) {
    Begin("cross_entropy").Buffer("logits", s.logits).Buffer("statistics", s.statistics).Buffer("losses", s.losses);
    Flag("gradient", s.gradient);
  }
  void operator()(const LossSumStep& s) { Begin("loss_sum").Buffer("losses", s.losses); }

 private:
  StepWriter& Begin(std::string_view name) {
    text_ = name;
    return *this;
  }
  StepWriter& Buffer(std::string_view name, BufferId id) {
    return id == kNoId ? *this : Word(name, fmt::format("b{}", id));
  }
  StepWriter& Parameter(std::string_view name, int id) {
    return id == kNoId ? *this : Word(name, block_.parameters.at(static_cast<std::size_t>(id)).name);
  }
  StepWriter& Site(int site) { return site == kNoId ? *this : Number("site", site); }
  StepWriter& Number(std::string_view name, int value) { return Word(name, std::to_string(value)); }
  StepWriter& Word(std::string_view name, std::string_view value) {
    text_ += fmt::format(" {}={}", name, value);
    return *this;
  }
  StepWriter& Flag(std::string_view name, bool set) {
    text_ += set ? fmt::format(" {}", name) : "";
    return *this;
  }

  const BlockDescription& block_;
  std::string text_;
};

void AppendPart(std::string_view name, const std::vector<ProgramStep>& steps, const BlockDescription& block,
                std::string& text) {
  if (steps.empty()) {
    return;
  }
  text += fmt::format("{}:\n", name);
  for (const ProgramStep& step : steps) {
    text += fmt::format("  {}\n", StepWriter(block).TextOf(step));
  }
}

}  // namespace

std::string ToText(const ModuleProgram& program, const BlockDescription& block) {
  std::string text;
  AppendPart("forward", program.forward, block, text);
  AppendPart("evaluation", program.evaluation, block, text);
  AppendPart(program.in_parts ? "backward, input part" : "backward", program.backward, block, text);
  AppendPart("backward, weight part", program.backward_weight, block, text);
  text += fmt::format("buffers: kept {} scratch {} weights {} bytes\n", program.kept_bytes, program.scratch_bytes,
                      program.weight_bytes);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const Place& place = program.buffers[i];
    if (place.present()) {
      text += fmt::format("  b{} {} {} {} {}\n", i, Name(place.area), place.offset, trireme::Name(place.dtype),
                          place.shape.ToString());
    }
  }
  return text;
}

}  // namespace trireme
