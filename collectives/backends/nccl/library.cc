// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/nccl/library.h"

#include <cstdlib>
#include <dlfcn.h>

namespace ddp::internal {
namespace {

Nccl load_nccl() {
  void* const library = open_library("libnccl.so.2",
                                     "install NCCL (libnccl2), or put the folder that has it into "
                                     "LD_LIBRARY_PATH");
  Nccl table;
  DDP_NCCL_FUNCTIONS(DDP_FIND_FUNCTION)
  return table;
}

/// The first whose calls outlive the thread that makes them: before it the state of a group of
/// calls is in that thread's memory, and NCCL's own threads go on to use it.
constexpr int kOldest = NCCL_VERSION(2, 23, 0);

std::string name_version(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

/// Of the loaded library; empty if the loader does not say.
std::string library_path() {
  Dl_info info{};
  const auto* const function = reinterpret_cast<const void*>(nccl().ncclGetVersion);
  return ::dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

}  // namespace

const Nccl& nccl() {
  static const LoadedLibrary<Nccl> loaded(&load_nccl);
  return loaded.table();
}

void check_nccl() {
  int version = 0;
  nccl().ncclGetVersion(&version);
  if (version < kOldest) {
    refuse_gpu_buffers("NCCL " + name_version(version) + " (" + library_path() +
                       ") is too old: it takes " + name_version(kOldest) + " or later");
  }
  // NCCL lets the variable decide, whatever a program asks for.
  const char* const blocking = std::getenv("NCCL_COMM_BLOCKING");
  if (blocking != nullptr && std::strtol(blocking, nullptr, 0) == 1) {
    refuse_gpu_buffers(
        "NCCL_COMM_BLOCKING=1 would make calls wait inside NCCL, where they cannot be ended: unset "
        "it");
  }
}

std::string describe(ncclResult_t result) {
  const char* const details = nccl().ncclGetLastError(nullptr);
  return std::string(nccl().ncclGetErrorString(result)) +
         (details == nullptr || *details == '\0' ? "" : ": " + std::string(details));
}

}  // namespace ddp::internal
