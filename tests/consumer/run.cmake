# cmake -D BUILD= -D SOURCE= -D WORK= -D GENERATOR= -D COMPILER= -D FLAGS= -P run.cmake
# Installs libddp of BUILD into WORK, builds the project in SOURCE against it and runs it. Then the same with the
# program of docs/cpp.md.
file(REMOVE_RECURSE ${WORK})
set(prefix ${WORK}/prefix)

function(must)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "failed (${code}): ${command}")
  endif()
endfunction()

foreach(component IN ITEMS ddp ddp_dev)
  must(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} --component ${component})
endforeach()
must(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR}
     -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_CXX_FLAGS=${FLAGS})
must(${CMAKE_COMMAND} --build ${WORK}/build)
must(${CMAKE_COMMAND} -E env RANK=0 WORLD_SIZE=1 ${WORK}/build/consumer)

if(FLAGS MATCHES sanitize)  # a rank that ends would look for leaks first, and others that lost it may end before
  return()
endif()
file(MAKE_DIRECTORY ${WORK}/first)
execute_process(COMMAND bash ${SOURCE}/first_program.sh ${SOURCE}/../../docs/cpp.md ${BUILD}/bin ${prefix} "${FLAGS}"
                WORKING_DIRECTORY ${WORK}/first RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "docs/cpp.md is not true")
endif()
