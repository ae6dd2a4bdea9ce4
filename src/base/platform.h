// What the program assumes of a machine, said here alone: Linux with pointers of 64 bits, little-endian byte order
// (files are written as memory holds them) and IEEE floats. A page's size is asked for, not assumed: ARM kernels have
// pages of 4, 16 or 64 KiB.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace trireme {

static_assert(std::endian::native == std::endian::little,
              "datasets, checkpoints and ledgers are little-endian and are read without swapping bytes");
static_assert(sizeof(void*) == 8, "sizes and offsets of files have 64 bits");
static_assert(std::numeric_limits<float>::is_iec559 && std::numeric_limits<double>::is_iec559);

// Bytes of a page of memory.
std::int64_t PageBytes();

}  // namespace trireme
