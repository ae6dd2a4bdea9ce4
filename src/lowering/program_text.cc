#include "lowering/program_text.h"

#include <fmt/core.h>

#include <array>
#include <string_view>

#include "lowering/operands.h"

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

std::string_view Name(GroupedProduct product) {
  switch (product) {
    case GroupedProduct::kForward:
      return "forward";
    case GroupedProduct::kInputGradient:
      return "input_gradient";
    case GroupedProduct::kWeightGradient:
      return "weight_gradient";
  }
  return "?";
}

std::string_view NameOf(BlockLinear linear) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "qkv", "attention_out", "ffn_in", "ffn_out", "head", "router", "shared_gate", "expert_in", "expert_out"};
  return kNames[static_cast<std::size_t>(linear)];
}

std::string_view Name(ProgramGroup group) {
  switch (group) {
    case ProgramGroup::kTensor:
      return "tensor";
    case ProgramGroup::kContext:
      return "context";
    case ProgramGroup::kHeads:
      return "heads";
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

// What a step chooses besides its operands. Choices that are off are left out.
class ChoiceWriter {
 public:
  explicit ChoiceWriter(std::string& text) : text_(text) {}

  void operator()(const SumStep& s) { Site(s.site); }
  void operator()(const NormStep& s) { Site(s.site); }
  void operator()(const NormBackwardStep& s) { Number("norm", s.norm); }
  void operator()(const CollectiveStep& s) { Word("group", Name(s.group)); }
  void operator()(const ProductStep& s) {
    Word("kind", Name(s.kind));
    Word("layer", NameOf(s.linear));
    if (s.epilogue != Epilogue::kNone) {
      Word("epilogue", Name(s.epilogue));
    }
    Flag("copied", s.copied);
    text_ += fmt::format(" {}x{}x{}", s.rows, s.columns, s.depth);
  }
  void operator()(const GroupedProductStep& s) {
    Word("kind", Name(s.product));
    Word("layer", NameOf(s.linear));
    text_ += fmt::format(" {} rows {}x{}x{}", s.rows, s.experts, s.outputs, s.inputs);
  }
  void operator()(const Route<TensorId>& s) {
    Word("score", trireme::Name(s.router.score));
    Flag("renormalize", s.router.renormalize);
    Factor("scale", s.router.scale);
  }
  void operator()(const QuantizeStep& s) { Flag("once", s.once); }
  void operator()(const HeadNormStep& s) { Flag("together", s.together); }
  void operator()(const HeadNormBackwardStep& s) { Flag("together", s.together); }
  void operator()(const Rotary<TensorId>& s) { Flag("inverse", s.inverse); }
  void operator()(const CopyKeysStep& s) { Flag("back", s.back); }
  void operator()(const CopyHeadsStep& s) {
    Word("order", s.order == HeadOrder::kParts ? "parts" : "sequences");
    Flag("back", s.back);
    Flag("packed", s.packed);
  }
  void operator()(const DropoutStep& s) {
    Site(s.site);
    Flag("own_rows", s.own_rows);
  }
  void operator()(const BiasGradientStep& s) { Flag("own_rows", s.own_rows); }
  void operator()(const AddGradientStep& s) { Number("row", s.row); }
  void operator()(const ScaleStep& s) { Factor("factor", s.factor); }
  void operator()(const CrossEntropyStep& s) { Flag("gradient", s.gradient); }
  template <typename Step>
  void operator()(const Step& /*without choices*/) {}

  void Flag(std::string_view name, bool set) { text_ += set ? fmt::format(" {}", name) : ""; }

 private:
  void Word(std::string_view name, std::string_view value) { text_ += fmt::format(" {}={}", name, value); }
  void Number(std::string_view name, int value) { Word(name, std::to_string(value)); }
  void Site(int site) {
    if (site != kNoId) {
      Number("site", site);
    }
  }
  void Factor(std::string_view name, float factor) {
    text_ += factor == 1 ? "" : fmt::format(" {}={:.9g}", name, factor);
  }

  std::string& text_;
};

std::string TextOf(const ProgramStep& step, const BlockDescription& block) {
  std::string text(NameOf(step.work));
  for (const Operand& operand : OperandsOf(step.work)) {
    const std::string of = operand.is_buffer() ? fmt::format("b{}", operand.id)
                           : operand.owner == Owner::kBatch
                               ? "batch"
                               : std::string(block.parameters.at(static_cast<std::size_t>(operand.id)).name);
    text += fmt::format(" {}{}{}", operand.name, operand.access == Access::kUpdate ? "+=" : "=", of);
  }
  ChoiceWriter choices(text);
  std::visit(choices, step.work);
  choices.Flag("recomputed", step.recomputed);
  choices.Flag("weight_part", step.weight_part);
  choices.Flag("chunked", step.chunked);
  return text;
}

void AppendPart(std::string_view name, const std::vector<ProgramStep>& steps, const BlockDescription& block,
                std::string& text) {
  if (steps.empty()) {
    return;
  }
  text += fmt::format("{}:\n", name);
  for (const ProgramStep& step : steps) {
    text += fmt::format("  {}\n", TextOf(step, block));
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
