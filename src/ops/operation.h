// The form of an operation that has no products: one struct that lists its tensors once. Of TensorIds it is a step of a
// program, of Tensors it is a call of Ops::Run. From the list follow the lifetimes of buffers, the parameters that ZeRO
// gathers, the printed program, how a step becomes a call, bytes, and seconds of a paced run. Each struct has its name
// as a step, and a function Check that throws an Error where tensors do not fit.
#pragma once

#include <cstdint>

namespace trireme {

enum class Owner : std::uint8_t {
  kBuffer,     // a buffer of the program
  kParameter,  // a parameter of the module
  kGradient,   // the gradient of one
  kBatch,      // a tensor of the micro batch
};

enum class Access : std::uint8_t { kRead, kWrite, kUpdate };

inline constexpr int kNoId = -1;

// A tensor of a program by its number among those of its owner.
struct TensorId {
  int id = kNoId;

  bool given() const { return id != kNoId; }
};

// One tensor of an operation, which may be missing where the operation says so.
template <typename Op, typename T>
struct Use {
  T Op::*member;
  const char* name;  // in a printed program
  Access access = Access::kRead;
  Owner owner = Owner::kBuffer;
  int passes = access == Access::kUpdate ? 2 : 1;  // how often it goes through memory, for seconds of a paced run
};

}  // namespace trireme
