// From an element type known at run time to one known to the compiler.
#pragma once

#include <cassert>

#include "base/dtype.h"
#include "base/float16.h"

namespace trireme {

// Calls function(float{}), function(BFloat16{}) or function(Float16{}); Ops has checked that `dtype` is one of them.
template <typename Function>
void DispatchWorkingType(DType dtype, const Function& function) {
  if (dtype == DType::kBFloat16) {
    function(BFloat16{});
  } else if (dtype == DType::kFloat16) {
    function(Float16{});
  } else {
    assert(dtype == DType::kFloat32);
    function(float{});
  }
}

// function(to, from) for every pair of these types.
template <typename Function>
void DispatchWorkingTypes(DType to, DType from, const Function& function) {
  DispatchWorkingType(to, [&](auto a) { DispatchWorkingType(from, [&](auto b) { function(a, b); }); });
}

}  // namespace trireme
