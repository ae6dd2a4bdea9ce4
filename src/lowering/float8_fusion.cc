#include "lowering/float8_fusion.h"

#include <algorithm>

#include "base/float8.h"
#include "lowering/operands.h"

namespace trireme {
namespace {

// Where `work` notes the largest magnitude of `made`, if that is what it makes and it can.
BufferId* LargestNotedBy(StepWork& work, BufferId made) {
  if (auto* const norm = std::get_if<NormStep>(&work); norm != nullptr && norm->normed == made) {
    return &norm->largest;
  }
  if (auto* const norm = std::get_if<NormBackwardStep>(&work); norm != nullptr && norm->grad_x == made) {
    return &norm->largest;
  }
  if (auto* const activation = std::get_if<ActivationForward<TensorId>>(&work);
      activation != nullptr && activation->to.id == made) {
    return &activation->largest.id;
  }
  if (auto* const activation = std::get_if<ActivationBackward<TensorId>>(&work);
      activation != nullptr && activation->grad_from.id == made) {
    return &activation->largest.id;
  }
  if (auto* const product = std::get_if<ProductStep>(&work); product != nullptr && product->c == made &&
                                                             product->epilogue == Epilogue::kGeluGradient &&
                                                             product->scale_a != kNoId) {
    return &product->largest;
  }
  return nullptr;
}

// Whether `work` leaves `buffer` as it was.
bool Leaves(const StepWork& work, BufferId buffer) {
  const OperandList operands = OperandsOf(work);
  return std::none_of(operands.begin(), operands.end(), [buffer](const Operand& operand) {
    return operand.is_buffer() && operand.id == buffer && operand.access != Access::kRead;
  });
}

// The largest magnitude of what `steps[copy]` reads comes from the step that made it.
void FuseLargest(ModuleProgram& program, std::vector<ProgramStep>& steps, std::size_t copy) {
  auto& quantize = std::get<QuantizeStep>(steps[copy].work);
  for (std::size_t i = copy; i-- > 0;) {
    if (BufferId* const noted = LargestNotedBy(steps[i].work, quantize.from)) {
      if (*noted == kNoId) {
        program.buffers.push_back({.dtype = DType::kFloat32, .shape = {kLargestSlots}});
        *noted = static_cast<BufferId>(program.buffers.size()) - 1;
      }
      quantize.largest = *noted;
      return;
    }
    if (!Leaves(steps[i].work, quantize.from)) {
      return;
    }
  }
}

// The gradient of a bias that is summed up later, from what `steps[copy]` reads, is summed up there.
void FuseBiasGradient(std::vector<ProgramStep>& steps, std::size_t copy) {
  auto& quantize = std::get<QuantizeStep>(steps[copy].work);
  for (std::size_t i = copy + 1; i < steps.size() && Leaves(steps[i].work, quantize.from); ++i) {
    const auto* const bias = std::get_if<BiasGradientStep>(&steps[i].work);
    if (bias != nullptr && bias->rows == quantize.from && !bias->own_rows) {
      quantize.bias = bias->bias;
      steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }
}

}  // namespace

void FuseFloat8Copies(ModuleProgram& program) {
  for (std::vector<ProgramStep>* const steps : {&program.forward, &program.backward, &program.backward_weight}) {
    for (std::size_t i = 0; i < steps->size(); ++i) {
      auto* const quantize = std::get_if<QuantizeStep>(&(*steps)[i].work);
      if (quantize == nullptr) {
        continue;
      }
      if (quantize->from != kNoId) {
        FuseLargest(program, *steps, i);
        FuseBiasGradient(*steps, i);
      }
      if (quantize->largest == kNoId) {
        program.buffers.push_back({.area = Area::kWeights, .dtype = DType::kFloat32, .shape = {1}});
        quantize->guess = static_cast<BufferId>(program.buffers.size()) - 1;
      }
    }
  }
}

}  // namespace trireme
