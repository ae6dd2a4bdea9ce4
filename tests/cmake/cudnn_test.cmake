# cmake -DFOLDER=... -P cudnn_test.cmake: an older cuDNN is refused without a version that reports could take for its own.
cmake_minimum_required(VERSION 3.25)
function(expect version said)
  string(REPLACE "." ";" parts ${version})
  list(GET parts 0 major)
  list(GET parts 1 minor)
  list(GET parts 2 patch)
  file(REMOVE_RECURSE ${FOLDER})
  file(WRITE ${FOLDER}/root/include/cudnn_graph.h "")
  file(WRITE ${FOLDER}/root/include/cudnn_version.h
    "#define CUDNN_MAJOR ${major}\n#define CUDNN_MINOR ${minor}\n#define CUDNN_PATCHLEVEL ${patch}\n")
  file(WRITE ${FOLDER}/root/lib/libcudnn.so.9 "")
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/find_cudnn -B ${FOLDER}/build -DCUDNN_ROOT=${FOLDER}/root
    OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE failed)
  if(failed OR NOT output MATCHES "${said}")
    message(FATAL_ERROR "of cuDNN ${version} it does not say \"${said}\":\n${output}")
  endif()
endfunction()

expect(9.5.1 "found 'FALSE', version ''")
expect(9.13.9 "found 'FALSE', version ''")
expect(9.14.0 "found 'TRUE', version '9[.]14[.]0'")
expect(10.0.2 "found 'TRUE', version '10[.]0[.]2'")
