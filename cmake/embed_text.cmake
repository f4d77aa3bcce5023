# Makes a file one text that is compiled in: cmake -D FILE=preload.py -D HEADER=agent/worker/worker_command.h
# -D NAMESPACE=ddprun::agent -D NAME=kTemplateProgram -D OUTPUT=program.cc -P embed_text.cmake
cmake_minimum_required(VERSION 3.25)

file(READ ${FILE} text)
file(WRITE ${OUTPUT} "// Made by cmake/embed_text.cmake.
#include \"${HEADER}\"

namespace ${NAMESPACE} {

const std::string_view ${NAME} = R\"text(${text})text\";

}  // namespace ${NAMESPACE}
")
