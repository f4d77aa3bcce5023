// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/mpi/process.h"

#include <atomic>
#include <dlfcn.h>
#include <exception>
#include <filesystem>
#include <mutex>
#include <string>

#include "collectives/background.h"
#include "ddp/error.h"

namespace ddp::internal {
namespace {

std::atomic<int> groups = 0;

/// The folder that libddp.so is in.
std::filesystem::path own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&own_folder), &info) == 0) return {};
  return std::filesystem::absolute(info.dli_fname).parent_path();
}

MpiLibrary& load() {
  const auto plugin = own_folder() / "libddp_mpi.so";
  std::error_code ignored;
  if (!std::filesystem::exists(plugin, ignored)) {
    throw Error(ErrorKind::usage,
                "ddp: backend mpi is not installed here: there is no " + plugin.string() +
                    ", which is built with ddprun where CMake finds MPI (apt-get install "
                    "libopenmpi-dev)");
  }
  // RTLD_GLOBAL: the plug-ins of Open MPI need the symbols of its library.
  void* const handle = ::dlopen(plugin.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    throw Error(ErrorKind::usage, std::string("ddp: backend mpi cannot be loaded: ") + ::dlerror() +
                                      " (Open MPI's library is in Debian's package libopenmpi3, "
                                      "or libopenmpi40)");
  }
  const auto find =
      reinterpret_cast<decltype(&ddp_mpi_library)>(::dlsym(handle, "ddp_mpi_library"));
  if (find == nullptr) {
    throw Error(ErrorKind::usage, "ddp: backend mpi cannot be loaded: " + plugin.string() +
                                      " is not of this version of ddprun");
  }
  return *find();
}

struct Process {
  MpiLibrary& library;
  MpiLibrary::World world;
};

Process start() {
  MpiLibrary& library = load();
  try {
    const auto world = library.start(&finish_background);
    if (world.ours) {
      after_background([&library] {
        if (groups == 0 && library.runs()) library.end();
      });
    }
    return {library, world};
  } catch (const std::exception& failure) {
    throw Error(ErrorKind::usage, std::string("ddp: MPI does not start: ") + failure.what());
  }
}

}  // namespace

MpiLibrary& start_mpi(const GroupContext& context) {
  static const Process process = start();
  const int rank = context.named(context.rank);
  const auto& world = process.world;
  const bool whole = context.whole.empty();
  if (rank != world.rank || (whole && context.size != world.size)) {
    throw Error(ErrorKind::usage,
                "ddp: rank " + std::to_string(rank) +
                    (whole ? " of " + std::to_string(context.size) : "") + " is rank " +
                    std::to_string(world.rank) + " of " + std::to_string(world.size) +
                    " in MPI's world: with backend mpi the processes are started by ddprun --mpi "
                    "both or by MPI's launcher (mpirun -n " +
                    std::to_string(context.size) + " PROGRAM), and the group is all of them");
  }
  if (process.library.runs()) return process.library;
  throw Error(ErrorKind::usage,
              "ddp: rank " + std::to_string(rank) + ": the program has ended MPI (MPI_Finalize)");
}

void begin_mpi_group() {
  ++groups;
}

void end_mpi_group() {
  --groups;
}

}  // namespace ddp::internal
