# Run by the build (cmake -P): makes FOLDER/planner.wasm from SOURCE with EMCMAKE. Where an Emscripten cannot compile it the
# file is empty, and the program goes without the planner's page.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_FILE ${FOLDER}/planner.log ERROR_FILE ${FOLDER}/planner.log)
  if(NOT failed EQUAL 0)
    file(READ ${FOLDER}/planner.log log)
    message("The program is built without the planner's page, which Emscripten could not compile:\n${log}")
    file(WRITE ${FOLDER}/planner.wasm "")
    set(ended TRUE PARENT_SCOPE)
  endif()
endfunction()

file(MAKE_DIRECTORY ${FOLDER})
run(${EMCMAKE} ${CMAKE_COMMAND} -S ${SOURCE} -B ${FOLDER}/planner -G Ninja -DCMAKE_BUILD_TYPE=Release
  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=22)
if(NOT ended)
  run(${CMAKE_COMMAND} --build ${FOLDER}/planner --parallel 2)
endif()
if(NOT ended)
  file(COPY_FILE ${FOLDER}/planner/planner.wasm ${FOLDER}/planner.wasm)
  file(TOUCH ${FOLDER}/planner.wasm)
endif()
