# cmake -DFOLDER=... -P cuda_architectures_test.cmake: what values of CMAKE_CUDA_ARCHITECTURES stand for, with programs in
# the place of nvcc and nvidia-smi. Calls itself with WANTED for one value, as an error ends a script.
cmake_minimum_required(VERSION 3.25)
if(DEFINED WANTED)
  include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/CudaArchitectures.cmake)
  trireme_cuda_architectures(result "${WANTED}" "${NVCC}" "${NVIDIA_SMI}")
  message(STATUS "stands for '${result}'")
  return()
endif()

function(program name text)
  file(WRITE ${FOLDER}/${name} "#!/bin/sh\nprintf '${text}'\n")
  file(CHMOD ${FOLDER}/${name} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endfunction()

function(expect nvidia_smi wanted said)
  execute_process(COMMAND ${CMAKE_COMMAND} "-DWANTED=${wanted}" -DNVCC=${FOLDER}/nvcc -DNVIDIA_SMI=${nvidia_smi}
      -P ${CMAKE_CURRENT_LIST_FILE}
    OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")  # messages are wrapped
  if(NOT output MATCHES "${said}")
    message(FATAL_ERROR "of '${wanted}' it does not say \"${said}\": ${output}")
  endif()
endfunction()

# As nvcc 13 says them: not in order.
program(nvcc "compute_75\\ncompute_80\\ncompute_86\\ncompute_90\\ncompute_90a\\ncompute_110\\ncompute_100\\ncompute_103\\n")
program(two_gpus "9.0\\n8.6\\n9.0\\n")
program(no_gpu "No devices were found\\n")
set(two_gpus ${FOLDER}/two_gpus)
set(no_gpu ${FOLDER}/no_gpu)

expect("${two_gpus}" "" "stands for '86-real;90'")
expect("${no_gpu}" "" "stands for '80-real;86-real;90-real;100'")
expect("" "" "stands for '80-real;86-real;90-real;100'")
expect("${two_gpus}" native "stands for '86-real;90'")
expect("${no_gpu}" native "'native', which cannot be resolved here: .* give the numbers")
expect("" all "stands for '75-real;80-real;86-real;90-real;100-real;103-real;110'")
expect("" all-major "stands for '75-real;80-real;90-real;100-real;110'")
expect("" "80-real;90a;100-virtual" "stands for '80-real;90a;100-virtual'")
expect("" "80" "stands for '80'")
expect("" OFF "'OFF', which cannot be resolved here")
expect("" "80;newest" "'80;newest', which cannot be resolved here")
