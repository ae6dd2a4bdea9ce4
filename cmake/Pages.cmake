# trireme_pages(VARIABLE): a source file that holds the pages of web/, built by Vite when Node.js and npm are here. What
# stands in the way (no Node.js, no network for npm, TRIREME_WEB off) costs the pages, not the build: the program then
# says so, and how to get them.
function(trireme_pages variable)
  set(source ${CMAKE_BINARY_DIR}/web/pages.cc)
  set(${variable} ${source} PARENT_SCOPE)
  # One literal of some hundred thousand characters.
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -Wno-overlength-strings SKIP_UNITY_BUILD_INCLUSION ON)
  set(absence "")
  find_program(TRIREME_NODE NAMES node nodejs)
  find_program(TRIREME_NPM npm)
  if(NOT TRIREME_WEB)
    set(absence "it was configured with -DTRIREME_WEB=OFF; configure with ON and build again")
  elseif(NOT TRIREME_NODE OR NOT TRIREME_NPM)
    set(absence "Node.js and npm were not there when it was built; install them (Debian: apt-get install nodejs npm), configure and build again")
  endif()
  file(GLOB_RECURSE inputs CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/web/src/* ${CMAKE_SOURCE_DIR}/web/*.html)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DNODE=${TRIREME_NODE} -DNPM=${TRIREME_NPM} "-DABSENCE=${absence}"
      -DWEB=${CMAKE_SOURCE_DIR}/web -DFOLDER=${CMAKE_BINARY_DIR}/web -P ${CMAKE_SOURCE_DIR}/cmake/BuildPages.cmake
    DEPENDS ${inputs} ${CMAKE_SOURCE_DIR}/web/package-lock.json ${CMAKE_SOURCE_DIR}/web/build.mjs
      ${CMAKE_SOURCE_DIR}/web/embed.mjs ${CMAKE_SOURCE_DIR}/cmake/BuildPages.cmake
    COMMENT "Building the pages of web/" VERBATIM)
endfunction()
