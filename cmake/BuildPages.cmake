# Run by the build (cmake -P): makes FOLDER/pages.cc from the pages of WEB with NODE and NPM. Packages are installed in
# FOLDER once per package-lock.json. Where they cannot be had, or ABSENCE says why there are no pages, pages.cc says that.
function(write_absence reason)
  string(REPLACE "\\" "\\\\" reason "${reason}")
  string(REPLACE "\"" "\\\"" reason "${reason}")
  file(WRITE ${FOLDER}/pages.cc "#include \"report/pages.h\"\n\nnamespace trireme {\n\nstd::string_view ReportPage() { return \"\"; }\nstd::string_view PagesAbsence() { return \"${reason}\"; }\n\n}  // namespace trireme\n")
endfunction()

file(MAKE_DIRECTORY ${FOLDER})
if(NOT ABSENCE STREQUAL "")
  write_absence("${ABSENCE}")
  return()
endif()

file(GLOB pages ${WEB}/*.html)
file(COPY ${pages} ${WEB}/package.json ${WEB}/package-lock.json ${WEB}/.npmrc ${WEB}/build.mjs ${WEB}/embed.mjs ${WEB}/src
  DESTINATION ${FOLDER}/site)
file(SHA256 ${WEB}/package-lock.json lock)
set(installed "")
if(EXISTS ${FOLDER}/installed)
  file(READ ${FOLDER}/installed installed)
endif()
if(NOT installed STREQUAL lock)
  execute_process(COMMAND ${NPM} ci --omit=dev --ignore-scripts --prefer-offline --no-progress
    WORKING_DIRECTORY ${FOLDER}/site RESULT_VARIABLE failed OUTPUT_FILE ${FOLDER}/npm.log ERROR_FILE ${FOLDER}/npm.log)
  if(NOT failed EQUAL 0)
    message("The program is built without its pages: npm could not fetch their packages (${FOLDER}/npm.log)")
    write_absence("npm could not fetch their packages when it was built; with network, remove the build folder's web/ and build again")
    return()
  endif()
  file(WRITE ${FOLDER}/installed ${lock})
endif()
execute_process(COMMAND ${NODE} build.mjs ${FOLDER}/dist WORKING_DIRECTORY ${FOLDER}/site RESULT_VARIABLE failed
  OUTPUT_FILE ${FOLDER}/vite.log ERROR_FILE ${FOLDER}/vite.log)
if(failed EQUAL 0)
  execute_process(COMMAND ${NODE} embed.mjs ${FOLDER}/dist ${FOLDER}/pages.cc WORKING_DIRECTORY ${FOLDER}/site
    RESULT_VARIABLE failed)
endif()
if(NOT failed EQUAL 0)
  file(READ ${FOLDER}/vite.log log)
  message(FATAL_ERROR "the pages of web/ cannot be built:\n${log}")
endif()
