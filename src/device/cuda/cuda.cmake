# The CUDA device. Included by src/device/CMakeLists.txt when TRIREME_CUDA is set. Hopper is the default target; give
# -DCMAKE_CUDA_ARCHITECTURES=80 (say) for another.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90)
endif()
enable_language(CUDA)
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")  # CMake 3.25 does not know it of a newer nvcc
endif()
find_package(CUDAToolkit 12 REQUIRED)
find_package(CUDNN 9.14 REQUIRED)

target_sources(trireme_device PRIVATE
  cuda/activation.cu cuda/attention.cc cuda/attention_plain.cu cuda/attention_plain_backward.cu
  cuda/cross_entropy.cu cuda/cuda_check.cc
  cuda/cuda_context.cc cuda/cuda_device.cc cuda/cuda_ops.cc cuda/cudnn_plan.cc
  cuda/decode_attention.cu cuda/elementwise.cu cuda/embedding.cu
  cuda/matmul_choices.cc cuda/matmul_cublaslt.cc cuda/norm.cu cuda/optimizer.cu cuda/quantize.cu cuda/recorded_launches.cc cuda/reduce.cu cuda/rotary.cu)
# CMake 3.25 does not know that nvcc speaks C++20.
target_compile_options(trireme_device PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr>")
# The target is older than the language, so that it took neither of these from variables. The runtime is linked by name:
# programs that only link this library need not know CUDA as a language.
set_target_properties(trireme_device PROPERTIES CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}"
  CUDA_RUNTIME_LIBRARY None)
target_link_libraries(trireme_device PRIVATE CUDA::cudart_static CUDA::cublasLt CUDNN::cudnn)
