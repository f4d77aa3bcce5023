# Installs files beside programs and libraries, and describes the Debian packages that CPack makes of a Release build
# for `scripts/package deb`.
install(FILES LICENSE README.md CHANGELOG.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT ddprun)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT ddprun
        FILES_MATCHING PATTERN *.md PATTERN *.png PATTERN *.svg PATTERN grafana.json)

# The licences of code that is compiled in have to be shown, except those of Boost and of the compiler's libraries.
set(notices "What is compiled into ddprun and the library ddp, as Debian describes the licences of each:\n")
foreach(package IN ITEMS libcli11-dev libfmt-dev libspdlog-dev libxxhash-dev nlohmann-json3-dev)
  set(file /usr/share/doc/${package}/copyright)
  if(EXISTS ${file})
    file(READ ${file} text)
    string(APPEND notices "\n==== ${package} ====\n\n${text}")
  endif()
endforeach()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/THIRD-PARTY.txt CONTENT "${notices}" @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/THIRD-PARTY.txt DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT ddprun)

set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # packages need neither tests nor benchmarks
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The ddprun maintainers <maintainers@ddprun.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                                                WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian_files.cmake)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

file(WRITE ${PROJECT_BINARY_DIR}/triggers "activate-noawait ldconfig\n")
# ddprun_package(COMPONENT NAME SECTION DESCRIPTION)
function(ddprun_package component name section description)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${description}" PARENT_SCOPE)
  if(section STREQUAL libs)
    set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/triggers PARENT_SCOPE)
  endif()
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${component} PARENT_SCOPE)
endfunction()

set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
ddprun_package(ddprun ddprun net "launcher for distributed training
ddprun starts the processes of a distributed training job on one node or
many, watches them, restarts them when one fails, and says which failed first
and why. It takes the flags and gives the environment of PyTorch's torchrun,
and needs neither Python nor PyTorch.")
ddprun_package(ddp libddp${soversion} libs "collectives for distributed training in C++
The library gives C++ programs what torch.distributed gives Python:
collectives in memory and over TCP, over MPI and NCCL, stores, and for training gradient
buckets, a sampler and checkpoints. Its programs start under ddprun, torchrun,
mpirun and srun.")
ddprun_package(ddp_dev libddp-dev libdevel "collectives for distributed training in C++ (headers)
The headers, and the configuration for CMake and pkg-config, of the library
ddp.")
set(CPACK_DEBIAN_DDPRUN_PACKAGE_RECOMMENDS "libdw1, libhwloc15, libssl3")  # loaded when a flag needs them
set(CPACK_COMPONENT_DDP_DEV_DEPENDS ddp)
if(DDPRUN_HAS_MPI)
  ddprun_package(ddp_mpi libddp${soversion}-mpi libs "collectives for distributed training in C++ (MPI)
The part of the library ddp that calls MPI. It is loaded when a program asks
for the backend mpi.")
  set(CPACK_DEBIAN_DDP_PACKAGE_SUGGESTS libddp${soversion}-mpi)
  set(CPACK_COMPONENT_DDP_MPI_DEPENDS ddp)
endif()
include(CPack)
add_custom_target(packed DEPENDS ddprun manual ddp $<TARGET_NAME_IF_EXISTS:ddp_mpi>)
