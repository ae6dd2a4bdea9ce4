# The CUDA device. Included by src/device/CMakeLists.txt when TRIREME_CUDA is set. cmake/CudaArchitectures.cmake says which GPUs
# it is built for; -DCMAKE_CUDA_ARCHITECTURES=80 (say) chooses.
find_program(TRIREME_NVCC nvcc HINTS $ENV{CUDACXX} PATHS /usr/local/cuda/bin)
if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND TRIREME_NVCC)
  set(CMAKE_CUDA_COMPILER ${TRIREME_NVCC})
endif()
include(CudaArchitectures)
find_program(TRIREME_NVIDIA_SMI nvidia-smi)
set(compiler ${CMAKE_CUDA_COMPILER})
if(NOT compiler)
  set(compiler $ENV{CUDACXX})
endif()
# Numbers, which the program parses to say which GPUs it was built for; CMake would leave `all-major` and the like to nvcc.
trireme_cuda_architectures(CMAKE_CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}" "${compiler}" "${TRIREME_NVIDIA_SMI}")
enable_language(CUDA)
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")  # CMake 3.25 does not know it of a newer nvcc
endif()
find_package(CUDAToolkit 12 REQUIRED)
find_package(CUDNN 9.14)

target_sources(trireme_device PRIVATE
  cuda/activation.cu cuda/architectures.cc cuda/architectures.cu cuda/attention_merge.cu cuda/attention_plain.cu
  cuda/attention_plain_backward.cu cuda/attention_segments.cu cuda/attention_softmax.cu cuda/attention_unfused.cc cuda/clear_memory.cu cuda/cross_entropy.cu cuda/cuda_check.cc cuda/cuda_context.cc cuda/cuda_device.cc
  cuda/cuda_info.cc cuda/cuda_ops.cc cuda/decode_attention.cu cuda/elementwise.cu cuda/embedding.cu cuda/event_pool.cc cuda/experts.cu cuda/gpu_energy.cc cuda/head_norm.cu cuda/int8.cu cuda/matmul_choices.cc
  cuda/matmul_cublaslt.cc cuda/norm.cu cuda/optimizer.cu cuda/quantize.cu cuda/recorded_launches.cc cuda/reduce.cu cuda/sum_of_squares.cu
  cuda/rotary.cu cuda/router.cu)
list(JOIN CMAKE_CUDA_ARCHITECTURES ", " built_for)
string(REPLACE "-real" "" architectures "${built_for}")
set_source_files_properties(cuda/architectures.cc PROPERTIES COMPILE_DEFINITIONS
  "TRIREME_CUDA_ARCHITECTURES=\"${architectures}\"")
set_source_files_properties(cuda/cuda_info.cc PROPERTIES COMPILE_DEFINITIONS
  "TRIREME_CUDA_ARCHITECTURES=\"${architectures}\";TRIREME_CUDA_BUILT_FOR=\"${built_for}\";TRIREME_CUDNN_VERSION=\"${CUDNN_VERSION}\"")
# What `trireme --version` says of the device.
set(about "CUDA ${CUDAToolkit_VERSION_MAJOR}.${CUDAToolkit_VERSION_MINOR} for ${architectures}")
if(CUDNN_FOUND)
  target_sources(trireme_device PRIVATE cuda/attention_cudnn.cc cuda/attention_cudnn_blocks.cc cuda/attention_cudnn_segments.cc
    cuda/attention_graph.cc cuda/cudnn_plan.cc)
  target_link_libraries(trireme_device PRIVATE CUDNN::cudnn)
  string(APPEND about " with cuDNN ${CUDNN_VERSION}")
else()
  target_sources(trireme_device PRIVATE cuda/attention_cudnn_absent.cc)
  string(APPEND about " without cuDNN (plain attention)")
  message(STATUS "cuDNN 9.14 or later is not here: attention on GPUs runs in plain kernels, which are slower")
endif()
set(TRIREME_CUDA_ABOUT "${about}" CACHE INTERNAL "")
message(STATUS "${about}")
# CMake 3.25 does not know that nvcc speaks C++20.
target_compile_options(trireme_device PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr>")
# The target is older than the language, so that it took neither of these from variables. The runtime is linked by name:
# programs that only link this library need not know CUDA as a language.
set_target_properties(trireme_device PROPERTIES CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}"
  CUDA_RUNTIME_LIBRARY None)
target_link_libraries(trireme_device PRIVATE CUDA::cudart_static CUDA::cublasLt)
