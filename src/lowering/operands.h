// What a step of a program reads and writes, as a list: lifetimes of buffers, the parameters that ZeRO gathers, fusions
// with fp8 copies and prices are all derived from it.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lowering/module_program.h"

namespace trireme {

struct Operand {
  Owner owner = Owner::kBuffer;
  Access access = Access::kRead;
  std::int16_t id = kNoId;  // a BufferId, the number of a parameter, or a BatchTensor
  const char* name = "";    // its role in the step

  bool is_buffer() const { return owner == Owner::kBuffer; }
};

class OperandList {
 public:
  // Leaves out operands that are not given.
  OperandList() = default;
  OperandList(std::initializer_list<Operand> operands) {
    for (const Operand& operand : operands) {
      Add(operand);
    }
  }
  void Add(const Operand& operand) {
    if (operand.id != kNoId) {
      assert(count_ < operands_.size());
      operands_[count_++] = operand;
    }
  }
  const Operand* begin() const { return operands_.data(); }
  const Operand* end() const { return operands_.data() + count_; }

 private:
  std::array<Operand, 12> operands_;
  std::size_t count_ = 0;
};

// "norm", "attention_backward", …
std::string_view NameOf(const StepWork& work);
// In the order in which the step names them.
OperandList OperandsOf(const StepWork& work);

// Whether steps have operands of this owner: apart from the tied token table, and the table itself.
struct PartUse {
  bool own = false;
  bool tied = false;
};
PartUse UseOf(const ModuleProgram& program, const std::vector<ProgramStep>& steps, Owner owner);

}  // namespace trireme
