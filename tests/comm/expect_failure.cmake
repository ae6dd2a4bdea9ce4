# cmake -DPROGRAM=... -DARGUMENT=throw -DMESSAGE=regex -DLAUNCH="mpirun;..." -P expect_failure.cmake
# Runs the program under mpirun. The job must end by itself with exit code 1, and the last line that a rank printed must
# match the message. (The launcher's own report of the abort comes after it or, when its output is merged, around it.)
execute_process(COMMAND ${LAUNCH} ${PROGRAM} ${ARGUMENT} RESULT_VARIABLE code OUTPUT_VARIABLE output
  ERROR_VARIABLE output TIMEOUT 20)
string(REGEX MATCHALL "[^\n]*rank [0-9]+: [^\n]*" lines "${output}")
list(LENGTH lines count)
if(NOT code STREQUAL "1")
  message(FATAL_ERROR "exit code ${code}, not 1:\n${output}")
endif()
if(count EQUAL 0)
  message(FATAL_ERROR "no rank printed why it failed:\n${output}")
endif()
list(GET lines -1 last)
if(NOT last MATCHES "${MESSAGE}")
  message(FATAL_ERROR "the last message is '${last}', not '${MESSAGE}':\n${output}")
endif()
