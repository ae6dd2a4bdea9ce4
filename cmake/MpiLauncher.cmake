# Sets TRIREME_MPI_LAUNCH, the start of a command line that tests put `-n 4 PROGRAM` after, and TRIREME_OPEN_MPI. Open MPI
# asks to be told that it may run as root and have more ranks than cores; MPICH does both unasked. A launcher of the other
# implementation would start every rank as a job of its own, so that it is refused here.
find_package(MPI REQUIRED COMPONENTS CXX)
include(CheckCXXSymbolExists)
set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_CXX)
check_cxx_symbol_exists(OPEN_MPI mpi.h TRIREME_OPEN_MPI)
unset(CMAKE_REQUIRED_LIBRARIES)
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE launcher ERROR_VARIABLE launcher)
if((TRIREME_OPEN_MPI AND launcher MATCHES "HYDRA") OR (NOT TRIREME_OPEN_MPI AND launcher MATCHES "Open ?MPI|OpenRTE|PRRTE"))
  message(FATAL_ERROR "MPI's library is ${MPI_CXX_LIBRARIES}, but '${MPIEXEC_EXECUTABLE}' is another implementation's "
    "launcher; give the right one as -DMPIEXEC_EXECUTABLE=…")
endif()
set(TRIREME_MPI_LAUNCH ${MPIEXEC_EXECUTABLE})
if(TRIREME_OPEN_MPI)
  list(APPEND TRIREME_MPI_LAUNCH --oversubscribe --allow-run-as-root)
endif()
list(JOIN TRIREME_MPI_LAUNCH " " TRIREME_MPI_LAUNCH_LINE)
