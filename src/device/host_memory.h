// How much memory a process may take on this machine, and large blocks of it.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// The machine's memory in bytes or, where less, what the control groups of this process leave it: a container's or a
// job's limit, beyond which the kernel kills. `root` is the folder that holds proc and sys.
std::int64_t HostMemoryBytes(const std::string& root = "");

// What each of `ranks` ranks that share this machine may take beyond the `planned` bytes of all
// (Device::set_spare_bytes): its share of a quarter of what is left, since other programs need memory too.
std::int64_t SpareBytesOfRank(std::int64_t planned, std::int64_t ranks);

// Memory aligned to 256 bytes, null where none is left; std::free gives it back. Large blocks begin at a huge page and
// ask the kernel for huge ones, so that walks across rows miss few translations.
void* AllocatePages(std::int64_t bytes);

}  // namespace trireme
