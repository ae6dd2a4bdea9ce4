// What fp8 copies need is made by the steps that have the values at hand: the largest magnitude by the step that makes
// a tensor, sums of columns (gradients of biases) by the step that copies it. Where no step can say the magnitude, the
// last scale of the same copy is a guess, which saves the pass that looks for it as long as it is right.
#pragma once

#include "lowering/module_program.h"

namespace trireme {

// Before buffers have places. Every result stays what it was, to the bit.
void FuseFloat8Copies(ModuleProgram& program);

}  // namespace trireme
