# Makes the text of `ddprun --version`, for cli/manual/version.cc alone: the commit, the build type and the contents. It
# has no date and no path, so that two builds of the same sources are the same.

# In a tarball, or one that was unpacked within another repository: unknown.
set(ddprun_commit unknown)
find_package(Git QUIET)
if(Git_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --show-prefix --git-path logs/HEAD --short=12 HEAD
                  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                  RESULT_VARIABLE failed OUTPUT_VARIABLE answer ERROR_QUIET)
  if(NOT failed AND answer MATCHES "^\n([^\n]+)\n([0-9a-f]+)\n$")
    set(ddprun_commit ${CMAKE_MATCH_2})
    get_filename_component(head_log ${CMAKE_MATCH_1} ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
    if(EXISTS ${head_log})  # the next commit configures the build again
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${head_log})
    endif()
  endif()
endif()

if(DDPRUN_HAS_MPI)
  set(mpi "MPI ${MPI_CXX_VERSION}")
else()
  set(mpi "no MPI")
endif()
if(DDPRUN_HAS_NCCL)
  set(nccl "NCCL")
else()
  set(nccl "no NCCL")
endif()
set(parts "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, Boost ${Boost_VERSION}, CLI11 ${CLI11_VERSION}, \
nlohmann-json ${nlohmann_json_VERSION}, spdlog ${spdlog_VERSION}\\nbackends of ddp: cpu, ${mpi}, ${nccl}")
set(build_type ${CMAKE_BUILD_TYPE})
if(DDPRUN_SANITIZE)
  string(APPEND build_type " with -fsanitize=${DDPRUN_SANITIZE}")
endif()
set_source_files_properties(cli/manual/version.cc PROPERTIES COMPILE_DEFINITIONS
  "DDPRUN_COMMIT=\"${ddprun_commit}\";DDPRUN_BUILD_TYPE=\"${build_type}\";DDPRUN_PARTS=\"${parts}\"")
