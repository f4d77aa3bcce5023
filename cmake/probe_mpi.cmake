# Finds MPI according to DDPRUN_MPI (AUTO, ON, OFF). Sets DDPRUN_HAS_MPI and ddprun_mpi_summary, a sentence. If MPI
# is found, there is the target MPI::MPI_CXX.

if(NOT DDPRUN_MPI MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "DDPRUN_MPI must be AUTO, ON or OFF, not ${DDPRUN_MPI}")
endif()
set(DDPRUN_HAS_MPI FALSE)
if(DDPRUN_MPI STREQUAL "OFF")
  set(ddprun_mpi_summary "MPI disabled (DDPRUN_MPI=OFF)")
else()
  set(MPI_CXX_SKIP_MPICXX TRUE)  # the C++ bindings, which MPI 3 removed
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(DDPRUN_HAS_MPI TRUE)
    set(ddprun_mpi_summary "MPI ${MPI_CXX_VERSION} found (${MPI_mpi_LIBRARY})")
  elseif(DDPRUN_MPI STREQUAL "ON")
    message(FATAL_ERROR "DDPRUN_MPI=ON, but CMake finds no MPI: install libopenmpi-dev, or set \
MPI_HOME or MPI_CXX_COMPILER")
  else()
    set(ddprun_mpi_summary "MPI not found (missing: mpi.h)")
  endif()
endif()
