// A block program as text, for people and for golden files: every step with its buffers, parameters and choices, and
// where every buffer lies. Equal programs have equal text on every machine.
#pragma once

#include <string>

#include "lowering/module_program.h"

namespace trireme {

// block: the description that `program` was lowered from, with its parameters (DescribeBlock), whose names are printed.
std::string ToText(const ModuleProgram& program, const BlockDescription& block);

}  // namespace trireme
