# Looks for NCCL, as DDPRUN_NCCL asks (AUTO, ON, OFF), and says what was found: ddprun_nccl_summary.
# Sets DDPRUN_NCCL_INCLUDE_DIR and DDPRUN_NCCL_LIBRARY when NCCL and the CUDA runtime are here.

function(ddprun_probe_nccl)
  set(places ENV NCCL_HOME ENV CUDA_HOME ENV CUDA_PATH)
  find_path(DDPRUN_NCCL_INCLUDE_DIR nccl.h HINTS ${places} PATHS /usr/local/cuda
            PATH_SUFFIXES include)
  find_library(DDPRUN_NCCL_LIBRARY nccl HINTS ${places} PATHS /usr/local/cuda
               PATH_SUFFIXES lib64 lib)
  mark_as_advanced(DDPRUN_NCCL_INCLUDE_DIR DDPRUN_NCCL_LIBRARY)
  find_package(CUDAToolkit QUIET)

  set(missing)
  if(NOT DDPRUN_NCCL_INCLUDE_DIR)
    list(APPEND missing nccl.h)
  endif()
  if(NOT DDPRUN_NCCL_LIBRARY)
    list(APPEND missing libnccl)
  endif()
  if(NOT CUDAToolkit_FOUND)
    list(APPEND missing "the CUDA toolkit")
  endif()
  list(JOIN missing ", " missing_text)

  if(missing AND DDPRUN_NCCL STREQUAL "ON")
    message(FATAL_ERROR "DDPRUN_NCCL=ON, but this is missing: ${missing_text} "
                        "(set NCCL_HOME or CUDA_HOME to where it is)")
  elseif(missing)
    set(summary "NCCL not found (missing: ${missing_text})")
  else()
    set(version)
    foreach(part MAJOR MINOR PATCH)
      file(STRINGS ${DDPRUN_NCCL_INCLUDE_DIR}/nccl.h line REGEX "#define NCCL_${part} ")
      string(REGEX REPLACE "[^0-9]*([0-9]+).*" "\\1" number "${line}")
      list(APPEND version ${number})
    endforeach()
    list(JOIN version "." version)
    set(summary "NCCL ${version} found (${DDPRUN_NCCL_LIBRARY}), CUDA ${CUDAToolkit_VERSION}; \
its backend is not part of this version yet")
  endif()
  set(ddprun_nccl_summary "${summary}" PARENT_SCOPE)
endfunction()

if(NOT DDPRUN_NCCL MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "DDPRUN_NCCL is AUTO, ON or OFF, not ${DDPRUN_NCCL}")
elseif(DDPRUN_NCCL STREQUAL "OFF")
  set(ddprun_nccl_summary "NCCL not looked for (DDPRUN_NCCL=OFF)")
else()
  ddprun_probe_nccl()
endif()
