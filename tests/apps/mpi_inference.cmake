# Trains a tiny model, then generates and evaluates with it as threads and under mpirun: both must say the same.
#   cmake -DPROGRAM=… -DLAUNCH="mpirun;…" -DFOLDER=… -P mpi_inference.cmake
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
file(WRITE ${FOLDER}/recipe.toml [[
model = { family = "llama", layers = 2, hidden = 32, heads = 4, kv_heads = 2, vocabulary = 256, sequence = 32 }
train = { steps = 3, device = "cpu", engine = "packed" }
]])

# Runs a command line in the folder; its standard output is in `result`.
function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${FOLDER} OUTPUT_VARIABLE out ERROR_VARIABLE err RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}: exit ${code}\n${out}${err}")
  endif()
  set(result "${out}" PARENT_SCOPE)
endfunction()

set(mpirun ${LAUNCH} -n 2)
set(ENV{OMP_NUM_THREADS} 1)  # equal bits need equal threads, which launchers that bind processes would change
run(${PROGRAM} train recipe.toml --run run)
run(${PROGRAM} checkpoint export run exported)
foreach(line "generate;run;--prompt;ab;--tokens;12;--seed;3" "generate;exported;--prompt;ab;--tokens;12;--seed;3"
    "evaluate;run;--samples;8;--json")
  run(${PROGRAM} ${line} --ranks 2)
  set(threads "${result}")
  run(${mpirun} ${PROGRAM} ${line})
  if(threads STREQUAL "" OR NOT threads STREQUAL result)
    message(FATAL_ERROR "${line}: threads say\n${threads}\nand MPI ranks\n${result}")
  endif()
endforeach()
