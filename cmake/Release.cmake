# The tarball that the preset `release` makes: a program that starts on a bare machine of this architecture with the C
# library of the building system or a newer one. Libraries are linked as archives where the system has them; the rest, but
# for the C library, is carried in lib/ and found by a run path relative to the program. Include this before libraries are
# found, and call trireme_release() when the program is a target.
foreach(pair XxHash_LIBRARY=xxhash ZLIB_LIBRARY_RELEASE=z Zstd_LIBRARY=zstd ICU_UC_LIBRARY_RELEASE=icuuc
    ICU_DATA_LIBRARY_RELEASE=icudata)
  string(REGEX MATCH "^(.*)=(.*)$" whole ${pair})
  find_library(${CMAKE_MATCH_1} NAMES lib${CMAKE_MATCH_2}.a)
endforeach()

function(trireme_release)
  # The old kind of run path serves the carried libraries' own needs too.
  set_target_properties(trireme PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" INSTALL_RPATH_USE_LINK_PATH OFF)
  target_link_options(trireme PRIVATE -Wl,--disable-new-dtags)
  install(TARGETS trireme RUNTIME_DEPENDENCY_SET carried RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(RUNTIME_DEPENDENCY_SET carried
    PRE_EXCLUDE_REGEXES "^(libc|libm|libdl|librt|libpthread|ld-linux-[a-z0-9-]+)[.]so"
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

  set(extras ${CMAKE_BINARY_DIR}/release)
  set(written "")
  foreach(file trireme.1=manual trireme.bash=completion=bash _trireme=completion=zsh trireme.fish=completion=fish)
    string(REPLACE "=" ";" words ${file})
    list(POP_FRONT words name)
    add_custom_command(OUTPUT ${extras}/${name} COMMAND ${CMAKE_COMMAND} -E make_directory ${extras}
      COMMAND trireme ${words} > ${extras}/${name} DEPENDS trireme)
    list(APPEND written ${extras}/${name})
  endforeach()
  add_custom_target(release_extras ALL DEPENDS ${written})
  install(FILES ${extras}/trireme.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${extras}/trireme.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME trireme)
  install(FILES ${extras}/_trireme DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${extras}/trireme.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
  set(emscripten "")
  if(TRIREME_EMCMAKE)
    file(REAL_PATH ${TRIREME_EMCMAKE} emscripten)
    cmake_path(GET emscripten PARENT_PATH emscripten)
  endif()
  install(CODE "set(TRIREME_LIBRARY_ARCHITECTURE ${CMAKE_LIBRARY_ARCHITECTURE})
    set(TRIREME_HTTPLIB \"${Httplib_INCLUDE_DIR}\")
    set(TRIREME_PAGES \"${CMAKE_BINARY_DIR}/web\")
    set(TRIREME_EMSCRIPTEN \"${emscripten}\")")
  install(SCRIPT ${CMAKE_SOURCE_DIR}/cmake/InstallLicences.cmake)

  set(CPACK_GENERATOR TGZ)
  set(CPACK_PACKAGE_NAME trireme)
  set(CPACK_PACKAGE_FILE_NAME trireme-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
  set(CPACK_STRIP_FILES ON)
  set(CPACK_OUTPUT_FILE_PREFIX ${CMAKE_BINARY_DIR}/package)
  set(CPACK_POST_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/Checksums.cmake)
  include(CPack)
endfunction()
