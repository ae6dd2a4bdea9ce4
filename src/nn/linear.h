// The three products of a linear layer y = x * w^T: in the working type, or in fp8 where the operands have places for
// their fp8 copies. Weights are made fp8 anew for each product, so that nothing is kept between micro batches.
#pragma once

#include "cost/module_plan.h"
#include "device/ops.h"

namespace trireme {

// A Float8Place as tensors; nothing is given where products are not in fp8.
struct Float8Copy {
  Tensor rows;
  Tensor columns;
  Tensor scale;
  bool late = false;
  bool given() const { return scale.given(); }
};

class Linear {
 public:
  // `ops` outlives this. weight: room for the fp8 copy of any weight, in either orientation.
  Linear(Ops& ops, const Float8Copy& weight) : ops_(ops), weight_(weight) {}

  // product.c = product.a * weight^T with the product's bias and epilogue; product.b is set here.
  void Forward(MatmulArgs product, const Tensor& weight, const Float8Copy& input) const;
  // product.c = product.a * weight, with the product's epilogue: the gradient of the input.
  void Backward(MatmulArgs product, const Tensor& weight, const Float8Copy& gradient) const;

  // An operand of the weight's gradient. `values` may be missing when the copy is there and not late.
  struct Operand {
    Tensor values;
    Float8Copy copy;
  };
  // weight_gradient += gradient^T * input; with `overwrite` it is not read.
  void WeightGradient(const Operand& gradient, const Operand& input, const Tensor& weight_gradient,
                      bool overwrite) const;

 private:
  // Makes product.a fp8: its rows, and its columns unless they are late.
  void QuantizeFirst(MatmulArgs& product, const Float8Copy& copy) const;
  Tensor Columns(const Operand& operand) const;

  Ops& ops_;
  Float8Copy weight_;
};

}  // namespace trireme
