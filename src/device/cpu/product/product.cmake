# Matrix products of the CPU: Trireme's own engine, with a file for each set of bf16 instructions that the compiler knows,
# and engines of libraries.
set(product_folder ${CMAKE_CURRENT_SOURCE_DIR}/cpu/product)
target_sources(trireme_device PRIVATE
  cpu/product/blas_engine.cc cpu/product/engine_choice.cc cpu/product/engine_speed.cc cpu/product/float_kernel.cc
  cpu/product/kept_panels.cc cpu/product/kernel_table.cc cpu/product/packed_engine.cc cpu/product/product_plan.cc)
target_link_libraries(trireme_device PRIVATE ${CMAKE_DL_LIBS})
set_source_files_properties(${product_folder}/float_kernel.cc PROPERTIES
  COMPILE_OPTIONS "${TRIREME_KERNEL_OPTIMISATION};${TRIREME_NATIVE_FLAGS}")

if(TRIREME_ONEDNN)
  find_package(Dnnl)
  if(NOT Dnnl_FOUND AND TRIREME_RELEASE)
    message(FATAL_ERROR "a release carries oneDNN, which is not here (libdnnl-dev); without it: -DTRIREME_ONEDNN=OFF")
  elseif(NOT Dnnl_FOUND)
    message(STATUS "oneDNN is not here (libdnnl-dev, or -DCMAKE_PREFIX_PATH=FOLDER): products are Trireme's own or those of a BLAS that is found at run time")
    set(TRIREME_ONEDNN OFF)
    set(TRIREME_ONEDNN OFF PARENT_SCOPE)
  endif()
endif()
if(TRIREME_ONEDNN)
  target_sources(trireme_device PRIVATE cpu/product/onednn_engine.cc)
  set_source_files_properties(${product_folder}/onednn_engine.cc PROPERTIES COMPILE_OPTIONS "${kernel_flags}")
  target_link_libraries(trireme_device PRIVATE DNNL::dnnl)
else()
  target_sources(trireme_device PRIVATE cpu/product/onednn_absent.cc)
endif()

# Files for one instruction set: they include nothing whose code the linker could keep for all.
set(avx512_flags ${TRIREME_KERNEL_OPTIMISATION} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # GCC's headers read undefined vectors on purpose.
  list(APPEND avx512_flags -Wno-uninitialized -Wno-maybe-uninitialized)
endif()
set(neon_flags ${TRIREME_KERNEL_OPTIMISATION} -march=armv8.2-a+bf16)
# clang accepts flags of other architectures and only warns: the processor decides, then the flag.
set(has_x86_bf16 FALSE)
set(has_arm_bf16 FALSE)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  check_cxx_compiler_flag("-mavx512bf16 -mamx-tile -mamx-bf16" TRIREME_COMPILES_X86_BF16)
  set(has_x86_bf16 ${TRIREME_COMPILES_X86_BF16})
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  check_cxx_compiler_flag(-march=armv8.2-a+bf16 TRIREME_COMPILES_ARM_BF16)
  set(has_arm_bf16 ${TRIREME_COMPILES_ARM_BF16})
endif()
if(has_x86_bf16)
  target_sources(trireme_device PRIVATE
    cpu/product/bf16_amx.cc cpu/product/bf16_avx512.cc cpu/product/bf16_kernels_x86.cc cpu/product/bf16_pack_avx512.cc)
  set_source_files_properties(${product_folder}/bf16_pack_avx512.cc PROPERTIES COMPILE_OPTIONS "${avx512_flags}")
  set_source_files_properties(${product_folder}/bf16_avx512.cc PROPERTIES COMPILE_OPTIONS "${avx512_flags};-mavx512bf16")
  set_source_files_properties(${product_folder}/bf16_amx.cc PROPERTIES
    COMPILE_OPTIONS "${avx512_flags};-mamx-tile;-mamx-bf16")
elseif(has_arm_bf16)
  target_sources(trireme_device PRIVATE cpu/product/bf16_kernels_arm.cc cpu/product/bf16_neon.cc)
  set_source_files_properties(${product_folder}/bf16_neon.cc PROPERTIES COMPILE_OPTIONS "${neon_flags}")
else()
  target_sources(trireme_device PRIVATE cpu/product/bf16_kernels_absent.cc)
endif()
