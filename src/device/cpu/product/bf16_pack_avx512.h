// Panels of bf16 for AVX-512 kernels. A word is two neighbouring depths of one line.
#pragma once

#include "device/cpu/product/kernel.h"

namespace trireme {

// [depth / 2][lines_of_panel] words, depth padded to a multiple of `unit`.
void PackWordsByDepth(const PackArgs& args, int lines_of_panel, int unit);
// [depth / 32][lines_of_panel][16 words], depth padded to a multiple of 32. lines_of_panel is a multiple of 16.
void PackWordsByLine(const PackArgs& args, int lines_of_panel);

}  // namespace trireme
