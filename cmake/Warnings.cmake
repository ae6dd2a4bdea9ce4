# Flags that every target of ours gets.
add_library(trireme_flags INTERFACE)
target_compile_options(trireme_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wno-missing-field-initializers>
  # GCC 12 and 13 see these in std::string and std::vector where there are none.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds -Wno-stringop-overflow -Wno-restrict>
  # GCC 13 and 14 take every reference that a function with a temporary argument returns for one into it.
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-dangling-reference>
  # A switch over an enumeration names every enumerator; GCC's -Wall asks the same of those without a default.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wswitch-enum>
  # Loops that are asked to be vectorised stay as they are in builds without optimisation.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-pass-failed>
  # Later clangs warn of captures that give a structured binding its own name again, which clang 14 asks for, and of what
  # GCC 12's library calls inside itself.
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,Clang>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,15>>:-Wno-shadow;-Wno-deprecated-declarations>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${TRIREME_WERROR}>>:-Werror>)

# Flags of CPU kernels. GCC 12.2 copies 32-byte constants wrongly at some levels, so moves wider than 16 bytes are left to
# the vectoriser. TRIREME_NATIVE compiles for the building machine instead of for every level.
include(CheckCXXCompilerFlag)
include(CheckCXXSourceRuns)
set(TRIREME_KERNEL_FLAGS "")
set(TRIREME_NATIVE_FLAGS "")
check_cxx_compiler_flag("-mmove-max=128 -mstore-max=128" TRIREME_HAS_MOVE_MAX)
if(TRIREME_HAS_MOVE_MAX)
  list(APPEND TRIREME_KERNEL_FLAGS -mmove-max=128 -mstore-max=128)
endif()
if(TRIREME_NATIVE)
  check_cxx_compiler_flag(-march=native TRIREME_HAS_MARCH_NATIVE)
  check_cxx_compiler_flag(-mcpu=native TRIREME_HAS_MCPU_NATIVE)
  if(TRIREME_HAS_MARCH_NATIVE)
    set(TRIREME_NATIVE_FLAGS -march=native)
  elseif(TRIREME_HAS_MCPU_NATIVE)
    set(TRIREME_NATIVE_FLAGS -mcpu=native)
    # clang goes by the processor's name; a hypervisor may hide the SVE that the name promises.
    set(CMAKE_REQUIRED_FLAGS -mcpu=native)
    check_cxx_source_runs("
      #include <sys/auxv.h>
      int main() {
      #if defined(__ARM_FEATURE_SVE)
        return (getauxval(AT_HWCAP) & HWCAP_SVE) != 0 ? 0 : 1;
      #endif
        return 0;
      }" TRIREME_NATIVE_RUNS_HERE)
    unset(CMAKE_REQUIRED_FLAGS)
    if(NOT TRIREME_NATIVE_RUNS_HERE)
      set(TRIREME_NATIVE_FLAGS -mcpu=native+nosve)
    endif()
  endif()
endif()
list(APPEND TRIREME_KERNEL_FLAGS ${TRIREME_NATIVE_FLAGS})
