#include "device/cpu/product/kernel_table.h"

#include "device/cpu/product/bf16_kernels.h"

namespace trireme {

ProductKernel Bf16Kernel(CpuLevel level) {
  const ProductKernel wide = FloatKernel(level);
  ProductKernel kernel = NativeBf16Kernel(level).value_or(wide);
  kernel.store = wide.store;
  return kernel;
}

}  // namespace trireme
