# The libraries of the describing half for Emscripten: headers alone, copied from the system's, whose own folder has
# another C library's.
set(headers ${CMAKE_BINARY_DIR}/headers)
foreach(header fmt/core.h toml++/toml.h nlohmann/json.hpp)
  get_filename_component(library ${header} DIRECTORY)
  find_path(TRIREME_${library}_HEADERS ${header} PATHS /usr/local/include /usr/include REQUIRED
    NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
  file(COPY ${TRIREME_${library}_HEADERS}/${library} DESTINATION ${headers})
endforeach()
find_path(TRIREME_XXHASH_HEADERS xxhash.h PATHS /usr/local/include /usr/include REQUIRED
  NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
file(COPY ${TRIREME_XXHASH_HEADERS}/xxhash.h DESTINATION ${headers})
foreach(target fmt::fmt tomlplusplus::tomlplusplus nlohmann_json::nlohmann_json xxhash::xxhash Threads::Threads)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
endforeach()
target_include_directories(fmt::fmt INTERFACE ${headers})
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
target_include_directories(xxhash::xxhash INTERFACE ${headers})
target_compile_definitions(xxhash::xxhash INTERFACE XXH_INLINE_ALL)
add_compile_options(-fwasm-exceptions -include ${CMAKE_SOURCE_DIR}/apps/planner_page/library_gaps.h)
add_link_options(-fwasm-exceptions)
