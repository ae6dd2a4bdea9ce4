#include "nn/linear.h"

namespace trireme {

void Linear::QuantizeFirst(MatmulArgs& product, const Float8Copy& copy) const {
  ops_.Quantize(
      {.from = product.a, .rows = copy.rows, .columns = copy.late ? Tensor{} : copy.columns, .scale = copy.scale});
  product.a = copy.rows;
  product.scale_a = copy.scale;
  product.scale_b = weight_.scale;
  product.transpose_b = true;
}

void Linear::Forward(MatmulArgs product, const Tensor& weight, const Float8Copy& input) const {
  if (input.given()) {
    product.b = weight_.rows.Reshaped(weight.shape);
    ops_.Quantize({.from = weight, .rows = product.b, .scale = weight_.scale});
    QuantizeFirst(product, input);
  } else {
    product.b = weight;
    product.transpose_b = true;
  }
  ops_.Matmul(product);
}

void Linear::Backward(MatmulArgs product, const Tensor& weight, const Float8Copy& gradient) const {
  if (gradient.given()) {
    product.b = weight_.columns.Reshaped({weight.shape[1], weight.shape[0]});
    ops_.Quantize({.from = weight, .columns = product.b, .scale = weight_.scale});
    QuantizeFirst(product, gradient);
  } else {
    product.b = weight;
  }
  ops_.Matmul(product);
}

Tensor Linear::Columns(const Operand& operand) const {
  if (operand.copy.late) {
    ops_.Quantize({.from = operand.values, .columns = operand.copy.columns, .scale = operand.copy.scale});
  }
  return operand.copy.columns;
}

void Linear::WeightGradient(const Operand& gradient, const Operand& input, const Tensor& weight_gradient,
                            bool overwrite) const {
  if (gradient.copy.given()) {
    ops_.Matmul({.a = Columns(gradient),
                 .b = Columns(input),
                 .c = weight_gradient,
                 .transpose_b = true,
                 .accumulate = !overwrite,
                 .scale_a = gradient.copy.scale,
                 .scale_b = input.copy.scale});
  } else {
    ops_.Matmul(
        {.a = gradient.values, .b = input.values, .c = weight_gradient, .transpose_a = true, .accumulate = !overwrite});
  }
}

}  // namespace trireme
