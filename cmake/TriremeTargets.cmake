# trireme_library(NAME base SOURCES a.cc b.cc DEPENDS topology ... LINK pkg::lib ...)
# A folder of src/ as a static library trireme_NAME. DEPENDS names other folders and is the folder's layer rule;
# LINK names libraries from outside. HOST names sources that use files, threads or such libraries: the planner's page is
# built without them, with those of PAGE instead. Presets compile some of a folder's files as one, to read the headers once,
# so names in unnamed namespaces are unique within a folder; TRIREME_APART has every library's and the program's files
# compiled one by one (scripts/mutants changes one file at a time).
function(trireme_library)
  cmake_parse_arguments(arg "" "NAME" "SOURCES;HOST;PAGE;DEPENDS;LINK" ${ARGN})
  if(EMSCRIPTEN)
    list(APPEND arg_SOURCES ${arg_PAGE})
  else()
    list(APPEND arg_SOURCES ${arg_HOST})
  endif()
  add_library(trireme_${arg_NAME} STATIC ${arg_SOURCES})
  if(arg_NAME IN_LIST TRIREME_DESCRIBING)
    # A multiplication and an addition stay two roundings: x86, ARM and WebAssembly then compute the same numbers.
    target_compile_options(trireme_${arg_NAME} PRIVATE -ffp-contract=off)
  endif()
  if(arg_NAME IN_LIST TRIREME_CASTING)
    target_compile_options(trireme_${arg_NAME} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${TRIREME_CASTING_FLAGS}>)
  endif()
  target_include_directories(trireme_${arg_NAME} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  list(TRANSFORM arg_DEPENDS PREPEND trireme_)
  target_link_libraries(trireme_${arg_NAME} PUBLIC ${arg_DEPENDS} fmt::fmt PRIVATE trireme_flags ${arg_LINK})
  if(TRIREME_APART)
    set_target_properties(trireme_${arg_NAME} PROPERTIES UNITY_BUILD OFF)
  endif()
endfunction()

# trireme_optimised(FILE...)
# Sources of this folder that loop over the elements of whole tensors: optimised as kernels are in every preset, where at -O0
# they would take most of the sanitizers' time. Compiled one by one.
function(trireme_optimised)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${TRIREME_KERNEL_OPTIMISATION}" SKIP_PRECOMPILE_HEADERS ON
    SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# LeakSanitizer takes three seconds on ARM at the end of every process: there, ctest sets ASAN_OPTIONS for the sanitizers'
# pieces, whatever the caller's. `scripts/test asan` ends with a training that it looks at.
set(TRIREME_TEST_ENVIRONMENT "")
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(TRIREME_TEST_ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
endif()

# The cases that shards run, as --gtest_filter: all but those of the file TRIREME_TESTS_LEFT_OUT, a pattern a line, `#` for
# comments.
set(TRIREME_SHARDS_FILTER "*")
if(TRIREME_TESTS_LEFT_OUT)
  file(STRINGS ${TRIREME_TESTS_LEFT_OUT} TRIREME_SHARDS_FILTER REGEX "^[^#]")
  list(JOIN TRIREME_SHARDS_FILTER ":" TRIREME_SHARDS_FILTER)
  string(PREPEND TRIREME_SHARDS_FILTER "-")
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${TRIREME_TESTS_LEFT_OUT})
endif()

# trireme_test(NAME topology_test SOURCES a_test.cc ... DEPENDS topology ... LABELS unit|ranks|...)
# A GoogleTest program whose cases are found when it has been built. LABELS sorts them for ctest -L.
# With TRIREME_TEST_SHARDS=N ctest starts a program N times, each for its share of the cases that TRIREME_TESTS_LEFT_OUT does
# not name, instead of once a case: sanitizers make the start of a program slow.
# WITHOUT names cases that ctest leaves out, for scripts/faults: those whose outcome is a matter of the machine's load.
# APART: its files are compiled one by one; ccache then shares those that are another program's too.
# TOGETHER names suites whose cases share what the suite prepares: ctest runs such a suite as one test.
# Test programs share one precompiled header, which halves their build time. The targets tests_unit, tests_ranks, …
# build the programs of one label.
function(trireme_test)
  cmake_parse_arguments(arg "APART" "NAME;TIMEOUT" "SOURCES;DEPENDS;LABELS;LINK;WITHOUT;TOGETHER" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  list(TRANSFORM arg_DEPENDS PREPEND trireme_)
  target_include_directories(${arg_NAME} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${arg_NAME} PRIVATE trireme_flags ${arg_DEPENDS} ${arg_LINK} GTest::gmock GTest::gtest_main Threads::Threads)
  target_precompile_headers(${arg_NAME} REUSE_FROM trireme_test_headers)
  if(arg_APART)
    set_target_properties(${arg_NAME} PROPERTIES UNITY_BUILD OFF)
  endif()
  target_compile_definitions(${arg_NAME} PRIVATE TRIREME_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  foreach(label ${arg_LABELS})
    if(NOT TARGET tests_${label})
      add_custom_target(tests_${label})
    endif()
    add_dependencies(tests_${label} ${arg_NAME})
  endforeach()
  if(NOT TRIREME_TEST_SHARDS)
    set(without ${arg_WITHOUT})
    foreach(suite ${arg_TOGETHER})
      add_test(NAME ${suite} COMMAND ${arg_NAME} --gtest_brief=1 --gtest_filter=${suite}.*)
      set_tests_properties(${suite} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
      list(APPEND without ${suite}.*)
    endforeach()
    set(filter "*")
    if(without)
      list(JOIN without ":" without)
      set(filter "-${without}")
    endif()
    gtest_discover_tests(${arg_NAME} DISCOVERY_TIMEOUT 120 TEST_FILTER "${filter}" PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
    return()
  endif()
  foreach(shard RANGE 1 ${TRIREME_TEST_SHARDS})
    add_test(NAME ${arg_NAME}.${shard} COMMAND ${arg_NAME} --gtest_brief=1 --gtest_filter=${TRIREME_SHARDS_FILTER})
    math(EXPR index "${shard} - 1")
    set_tests_properties(${arg_NAME}.${shard} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 1200
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${TRIREME_TEST_SHARDS};GTEST_SHARD_INDEX=${index};${TRIREME_TEST_ENVIRONMENT}")
  endforeach()
endfunction()
