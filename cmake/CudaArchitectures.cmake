# trireme_cuda_architectures(RESULT WANTED NVCC NVIDIA_SMI): sets RESULT to the numbers that WANTED, a value of
# CMAKE_CUDA_ARCHITECTURES, stands for:
#   (empty)    this machine's GPUs or, where there is none, the data centre's and desktop's from A100 on that NVCC knows
#   native     this machine's GPUs, which NVIDIA_SMI names
#   all        every architecture that NVCC knows
#   all-major  the oldest of these and the first of each generation (80, 90, 100)
# Each becomes machine code, the newest PTX too, which drivers translate for GPUs to come. Numbers stay as they are, with
# their -real and -virtual. What cannot be resolved is an error; without an NVCC, RESULT is WANTED, and enabling CUDA says
# what is missing.
function(trireme_cuda_architectures result wanted nvcc nvidia_smi)
  set(found "${wanted}")
  if(nvcc STREQUAL "")
    set(${result} "${found}" PARENT_SCOPE)
    return()
  endif()
  if(wanted STREQUAL "")
    trireme_present_gpus(found "${nvidia_smi}")
    if(found STREQUAL "")
      trireme_known_architectures(known "${nvcc}")
      foreach(architecture 80 86 89 90 100 120)
        if(architecture IN_LIST known)
          list(APPEND found ${architecture})
        endif()
      endforeach()
    endif()
  elseif(wanted STREQUAL "native")
    trireme_present_gpus(found "${nvidia_smi}")
  elseif(wanted MATCHES "^all(-major)?$")
    trireme_known_architectures(found "${nvcc}")
    if(wanted STREQUAL "all-major" AND found)
      list(GET found 0 oldest)
      list(FILTER found INCLUDE REGEX "0$")
      list(PREPEND found ${oldest})
      list(REMOVE_DUPLICATES found)
    endif()
  endif()
  if(NOT "${found};" MATCHES "^([0-9]+[af]?(-real|-virtual)?;)+$")
    message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES is '${wanted}', which cannot be resolved here: native takes a GPU that nvidia-smi "
      "names, all and all-major an nvcc that lists what it knows; give the numbers: -DCMAKE_CUDA_ARCHITECTURES=\"80;90\"")
  endif()
  if(NOT found STREQUAL wanted)
    list(POP_BACK found newest)
    list(TRANSFORM found APPEND -real)
    list(APPEND found ${newest})
  endif()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# Of the GPUs that this machine has, in ascending order; empty where there is none.
function(trireme_present_gpus result nvidia_smi)
  set(present "")
  if(nvidia_smi)
    execute_process(COMMAND ${nvidia_smi} --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE present ERROR_QUIET)
  endif()
  string(REGEX MATCHALL "[0-9]+[.][0-9]" present "${present}")
  list(TRANSFORM present REPLACE "[.]" "")
  list(REMOVE_DUPLICATES present)
  list(SORT present COMPARE NATURAL)
  set(${result} "${present}" PARENT_SCOPE)
endfunction()

# Those that run on every GPU of a kind, in ascending order: without 90a and the like.
function(trireme_known_architectures result nvcc)
  execute_process(COMMAND ${nvcc} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  string(REGEX MATCHALL "compute_[0-9]+[ \r]*\n" known "${known}")
  list(TRANSFORM known REPLACE "[^0-9]" "")
  list(SORT known COMPARE NATURAL)
  set(${result} "${known}" PARENT_SCOPE)
endfunction()
