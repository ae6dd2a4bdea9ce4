# trireme_pages(VARIABLE): a source file that holds the pages of web/, built by Vite when Node.js and npm are here; the
# planner's page when Emscripten is here too. What stands in the way (no Node.js, no network for npm, TRIREME_WEB off)
# costs the pages, not the build: the program then says so, and how to get them.
function(trireme_pages variable)
  set(folder ${CMAKE_BINARY_DIR}/web)
  set(source ${folder}/pages.cc)
  set(${variable} ${source} PARENT_SCOPE)
  # Literals of some hundred thousand and some million characters.
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -Wno-overlength-strings SKIP_UNITY_BUILD_INCLUSION ON)
  set(absence "")
  find_program(TRIREME_NODE NAMES node nodejs)
  find_program(TRIREME_NPM npm)
  if(NOT TRIREME_WEB)
    set(absence "it was configured with -DTRIREME_WEB=OFF; configure with ON and build again")
  elseif(NOT TRIREME_NODE OR NOT TRIREME_NPM)
    set(absence "Node.js and npm were not there when it was built; install them (Debian: apt-get install nodejs npm), configure and build again")
  endif()
  set(planner "")
  trireme_planner_module(${folder} planner planner_absence)
  file(GLOB_RECURSE inputs CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/web/src/* ${CMAKE_SOURCE_DIR}/web/*.html
    ${CMAKE_SOURCE_DIR}/clusters/*.toml ${CMAKE_SOURCE_DIR}/models/*.toml ${CMAKE_SOURCE_DIR}/stacks/*.toml)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DNODE=${TRIREME_NODE} -DNPM=${TRIREME_NPM} "-DABSENCE=${absence}"
      "-DPLANNER=${planner}" "-DPLANNER_ABSENCE=${planner_absence}"
      -DSOURCE=${CMAKE_SOURCE_DIR} -DFOLDER=${folder} -P ${CMAKE_SOURCE_DIR}/cmake/BuildPages.cmake
    DEPENDS ${inputs} ${planner} ${CMAKE_SOURCE_DIR}/web/package-lock.json ${CMAKE_SOURCE_DIR}/web/build.mjs
      ${CMAKE_SOURCE_DIR}/web/embed.mjs ${CMAKE_SOURCE_DIR}/cmake/BuildPages.cmake
    COMMENT "Building the pages of web/" VERBATIM)
endfunction()

# The planner as WebAssembly: this project configured a second time, with Emscripten, in FOLDER/planner. `module` becomes
# the path of the module, or empty; `absence` why there is none.
function(trireme_planner_module folder module absence)
  set(${module} "" PARENT_SCOPE)
  find_program(TRIREME_EMCMAKE emcmake)
  if(NOT TRIREME_WEB OR NOT TRIREME_PLANNER_PAGE)
    set(${absence} "it was configured with -DTRIREME_WEB=OFF or -DTRIREME_PLANNER_PAGE=OFF; configure with ON and build again" PARENT_SCOPE)
    return()
  elseif(NOT TRIREME_EMCMAKE)
    set(${absence} "Emscripten was not there when it was built; install it (Debian: apt-get install emscripten), configure and build again" PARENT_SCOPE)
    return()
  endif()
  set(inputs ${CMAKE_SOURCE_DIR}/CMakeLists.txt ${CMAKE_SOURCE_DIR}/cmake/BuildPlanner.cmake
    ${CMAKE_SOURCE_DIR}/cmake/PageLibraries.cmake)
  foreach(layer ${TRIREME_DESCRIBING})
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${layer}/*)
    list(APPEND inputs ${sources})
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/apps/planner_page/*)
  add_custom_command(OUTPUT ${folder}/planner.wasm
    COMMAND ${CMAKE_COMMAND} -DEMCMAKE=${TRIREME_EMCMAKE} -DSOURCE=${CMAKE_SOURCE_DIR} -DFOLDER=${folder}
      -P ${CMAKE_SOURCE_DIR}/cmake/BuildPlanner.cmake
    DEPENDS ${inputs} ${sources}
    COMMENT "Compiling the planner to WebAssembly" VERBATIM)
  set(${module} ${folder}/planner.wasm PARENT_SCOPE)
endfunction()
