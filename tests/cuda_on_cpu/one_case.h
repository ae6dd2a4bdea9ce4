// Cases of operations one by one, in the program that has them.
#pragma once

#include <string>

namespace trireme::cuda_on_cpu {

// Runs a case of the operations on the simulated GPU in fp32, bf16 and fp16, and prints what differs from the CPU and
// what was found. Returns the program's exit code.
__attribute__((weak)) int RunCase(const std::string& name);

}  // namespace trireme::cuda_on_cpu
