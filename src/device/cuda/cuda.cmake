# The CUDA device. Included by src/device/CMakeLists.txt when TRIREME_CUDA is set. Built for this machine's GPUs or, where
# there is none, for the data centre's and desktop's from A100 on, as far as nvcc knows them; -DCMAKE_CUDA_ARCHITECTURES=80
# (say) chooses. The newest is kept as PTX too, which drivers translate for GPUs to come.
find_program(TRIREME_NVCC nvcc HINTS $ENV{CUDACXX} PATHS /usr/local/cuda/bin)
if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND TRIREME_NVCC)
  set(CMAKE_CUDA_COMPILER ${TRIREME_NVCC})
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  find_program(TRIREME_NVIDIA_SMI nvidia-smi)
  set(present "")
  if(TRIREME_NVIDIA_SMI)
    execute_process(COMMAND ${TRIREME_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE present
      ERROR_QUIET)
  endif()
  string(REGEX MATCHALL "[0-9]+[.][0-9]" present "${present}")
  list(TRANSFORM present REPLACE "[.]" "")
  set(CMAKE_CUDA_ARCHITECTURES ${present})
  if(NOT present)
    set(compiler ${TRIREME_NVCC})
    if(DEFINED ENV{CUDACXX})
      set(compiler $ENV{CUDACXX})
    endif()
    execute_process(COMMAND ${compiler} --list-gpu-arch OUTPUT_VARIABLE known)
    foreach(architecture 80 86 89 90 100 120)
      if(known MATCHES "compute_${architecture}\n")
        list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture})
      endif()
    endforeach()
  endif()
  list(REMOVE_DUPLICATES CMAKE_CUDA_ARCHITECTURES)
  list(SORT CMAKE_CUDA_ARCHITECTURES COMPARE NATURAL)
  list(POP_BACK CMAKE_CUDA_ARCHITECTURES newest)
  list(TRANSFORM CMAKE_CUDA_ARCHITECTURES APPEND -real)
  list(APPEND CMAKE_CUDA_ARCHITECTURES ${newest})
endif()
enable_language(CUDA)
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")  # CMake 3.25 does not know it of a newer nvcc
endif()
find_package(CUDAToolkit 12 REQUIRED)
find_package(CUDNN 9.14)

target_sources(trireme_device PRIVATE
  cuda/activation.cu cuda/architectures.cc cuda/architectures.cu cuda/attention_merge.cu cuda/attention_plain.cu
  cuda/attention_plain_backward.cu cuda/attention_segments.cu cuda/attention_softmax.cu cuda/attention_unfused.cc cuda/clear_memory.cu cuda/cross_entropy.cu cuda/cuda_check.cc cuda/cuda_context.cc cuda/cuda_device.cc
  cuda/cuda_info.cc cuda/cuda_ops.cc cuda/decode_attention.cu cuda/elementwise.cu cuda/embedding.cu cuda/event_pool.cc cuda/gpu_energy.cc cuda/head_norm.cu cuda/int8.cu cuda/matmul_choices.cc
  cuda/matmul_cublaslt.cc cuda/norm.cu cuda/optimizer.cu cuda/quantize.cu cuda/recorded_launches.cc cuda/reduce.cu cuda/sum_of_squares.cu
  cuda/rotary.cu)
string(REPLACE "-real" "" architectures "${CMAKE_CUDA_ARCHITECTURES}")
list(JOIN architectures ", " architectures)
set_source_files_properties(cuda/architectures.cc PROPERTIES COMPILE_DEFINITIONS
  "TRIREME_CUDA_ARCHITECTURES=\"${architectures}\"")
set_source_files_properties(cuda/cuda_info.cc PROPERTIES COMPILE_DEFINITIONS
  "TRIREME_CUDA_ARCHITECTURES=\"${architectures}\";TRIREME_CUDNN_VERSION=\"${CUDNN_VERSION}\"")
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
