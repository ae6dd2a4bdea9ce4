# Flags that every target of ours gets.
add_library(trireme_flags INTERFACE)
target_compile_options(trireme_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wno-missing-field-initializers>
  # GCC 12 and 13 see these in std::string and std::vector where there are none.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds -Wno-stringop-overflow -Wno-restrict>
  # Loops that are asked to be vectorised stay as they are in builds without optimisation.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-pass-failed>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${TRIREME_WERROR}>>:-Werror>)

# CPU kernels alone are tuned for the machine. GCC 12.2 copies 32-byte constants wrongly under some -march=native
# choices, so there moves wider than 16 bytes are left to the vectoriser.
set(TRIREME_KERNEL_FLAGS "")
if(TRIREME_NATIVE)
  set(TRIREME_KERNEL_FLAGS -march=native)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    list(APPEND TRIREME_KERNEL_FLAGS -mmove-max=128 -mstore-max=128)
  endif()
endif()
