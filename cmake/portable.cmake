# The toolchain of `scripts/package tarball` and `wheel`: one binary for every Linux with glibc 2.28 or later, on
# DDPRUN_ARCH, which is x86_64 or aarch64. The compiler is Zig's Clang (scripts/release/package-env), which brings the C
# library's headers and symbols of that version, and libc++. Everything else is headers, which are Debian's.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DDPRUN_ARCH)
execute_process(COMMAND uname -m OUTPUT_VARIABLE machine OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT DDPRUN_ARCH STREQUAL machine)
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_SYSTEM_PROCESSOR ${DDPRUN_ARCH})
  # The build runs ddprun, which prints the manual.
  set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${DDPRUN_ARCH}-static -L /usr/${DDPRUN_ARCH}-linux-gnu)
endif()

execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/../scripts/release/package-env --where
                OUTPUT_VARIABLE tools OUTPUT_STRIP_TRAILING_WHITESPACE)
set(CMAKE_CXX_COMPILER ${tools}/${DDPRUN_ARCH}-clang++)
set(CMAKE_AR ${tools}/zig-ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${tools}/zig-ranlib CACHE FILEPATH "")

# CMake has to find Debian's packages, and the compiler their headers without those of the machine's C library
# beside them: in two folders of links, as some packages have a part of theirs in the machine's own folder.
set(CMAKE_LIBRARY_ARCHITECTURE ${machine}-linux-gnu)
set(headers ${CMAKE_BINARY_DIR}/headers)
file(MAKE_DIRECTORY ${headers}/all ${headers}/machine)
foreach(name IN ITEMS boost CLI dwarf.h elfutils fmt gelf.h hwloc hwloc.h libelf.h nlohmann openssl spdlog
                     toml++ xxhash.h)
  file(CREATE_LINK /usr/include/${name} ${headers}/all/${name} SYMBOLIC)
endforeach()
foreach(name IN ITEMS hwloc openssl)
  file(CREATE_LINK /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/${name} ${headers}/machine/${name} SYMBOLIC)
endforeach()
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${headers}/all ${headers}/machine)

# Included again where the compiler is known: CMake then leaves the folder of all of the machine's headers out.
list(APPEND CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES /usr/include)
set(CMAKE_PROJECT_INCLUDE ${CMAKE_CURRENT_LIST_FILE})

set(CMAKE_EXE_LINKER_FLAGS_INIT -s)  # the machine's strip knows one architecture

# Boost.Process calls it, and glibc has it since 2.34.
set(CMAKE_CXX_FLAGS_INIT "-include ${CMAKE_CURRENT_LIST_DIR}/portable_close_range.h")

# Clang 22 refuses the way in which fmt 10 checks format strings at compile time.
string(APPEND CMAKE_CXX_FLAGS_INIT " -DFMT_CONSTEVAL=")

# Boost's errors name files and lambdas by their paths; the bytes are the same wherever this is built.
get_filename_component(source ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)
string(APPEND CMAKE_CXX_FLAGS_INIT " -ffile-prefix-map=${source}/=")
