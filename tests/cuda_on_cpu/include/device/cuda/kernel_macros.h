// In the place of src/device/cuda/kernel_macros.h: dynamic shared memory is the executor's, and kernels are known to it
// with their types.
#pragma once

#define TRIREME_DYNAMIC_SHARED(Type, name) \
  Type* const name = static_cast<Type*>(::trireme::cuda_on_cpu::DynamicShared())
#define TRIREME_KERNEL(kernel) ::trireme::cuda_on_cpu::Remembered(kernel)
