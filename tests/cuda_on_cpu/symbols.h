// What the program's own ELF file says: names and lines of code, and the kernels' shared arrays, which are objects of
// its thread-local segment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::cuda_on_cpu {

struct SharedArray {
  std::uint64_t first = 0;  // of the thread-local segment
  std::uint64_t bytes = 0;
  std::string symbol;  // mangled
  std::string owner;   // the function that declares it, mangled; empty where it is inlined everywhere
};

struct AddressRange {
  std::uintptr_t first = 0;
  std::uintptr_t bytes = 0;
  bool Has(std::uintptr_t address) const { return address - first < bytes; }
};

// Memory that the program's file was mapped to.
AddressRange ProgramImage();
// The calling thread's copy of the thread-local segment.
AddressRange ThreadSegment();
// In the order of their places: those of .cu files and of templates.
const std::vector<SharedArray>& SharedArrays();
// By array, whether the kernel may access it: its own arrays, and those of functions that are no kernels.
std::vector<bool> ArraysOf(std::uintptr_t kernel);
// The function that an address lies in, without its parameters; the address as a number where none is known.
std::string FunctionName(std::uintptr_t address);
std::string Demangled(const std::string& symbol);
// "reduce.cu:61" of a return address; of inlined code also where it was inlined.
std::string SourceLine(std::uintptr_t return_address);
// Bytes of code that the compiler was asked to put before a function; 0 where there are none (launch bounds).
std::uint64_t BytesBefore(std::uintptr_t function);

}  // namespace trireme::cuda_on_cpu
