// What a kernel's source says otherwise where its kernels run on the CPU: tests/cuda_on_cpu has another header of this
// name.
#pragma once

// Declares `name`, the block's dynamic shared memory.
#define TRIREME_DYNAMIC_SHARED(Type, name) extern __shared__ __align__(16) Type name[]
// What the runtime knows a kernel by.
#define TRIREME_KERNEL(kernel) reinterpret_cast<void*>(kernel)
