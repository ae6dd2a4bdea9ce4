// A view of contiguous, row-major memory on some device. It owns nothing: the owner of the memory (an Arena, a
// test) keeps it alive. Copying a Tensor copies the view. A default Tensor stands for "not given".
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/shape.h"

namespace trireme {

struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  Shape shape;

  bool given() const { return data != nullptr; }
  std::int64_t count() const { return given() ? shape.count() : 0; }
  std::int64_t bytes() const { return count() * SizeOf(dtype); }

  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
  // Elements [first, first + length) of the flattened tensor, as a vector.
  Tensor Range(std::int64_t first, std::int64_t length) const {
    return {static_cast<char*>(data) + first * SizeOf(dtype), dtype, {length}};
  }
  // Rows [first, first + rows) along the first dim.
  Tensor Rows(std::int64_t first, std::int64_t rows) const {
    Tensor part = *this;
    const std::int64_t row = shape[0] == 0 ? 0 : shape.count() / shape[0];
    part.data = static_cast<char*>(data) + first * row * SizeOf(dtype);
    part.shape[0] = rows;
    return part;
  }
  // A view of this memory under another shape of equal count.
  Tensor Reshaped(const Shape& other) const { return {data, dtype, other}; }
};

}  // namespace trireme
