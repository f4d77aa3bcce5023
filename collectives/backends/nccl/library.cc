// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/nccl/library.h"

#include <dlfcn.h>

#include "collectives/backends/nccl/config.h"

namespace ddp::internal {
namespace {

int version_of(const Nccl& table) {
  int version = 0;
  table.ncclGetVersion(&version);
  return version;
}

Nccl load_nccl() {
  void* const library = open_library("libnccl.so.2",
                                     "install NCCL (libnccl2), or put the folder that has it into "
                                     "LD_LIBRARY_PATH");
  Nccl table;
  DDP_NCCL_FUNCTIONS(DDP_FIND_FUNCTION)
  if (version_of(table) < NCCL_VERSION(2, 27, 0)) return table;
  find_optional(table.ncclCommShrink, library, "ncclCommShrink");
  find_optional(table.ncclCommWindowRegister, library, "ncclCommWindowRegister");
  find_optional(table.ncclCommWindowDeregister, library, "ncclCommWindowDeregister");
  return table;
}

/// The first release whose calls outlive the thread that makes them. Earlier ones keep the state of
/// a group of calls in that thread's memory, and NCCL's own threads continue to use it.
constexpr int kOldest = NCCL_VERSION(2, 23, 0);

/// The path of the loaded library; empty if the loader does not say.
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

int nccl_version() {
  return version_of(nccl());
}

void check_nccl() {
  const int version = nccl_version();
  if (version < kOldest) {
    refuse_gpu_buffers("NCCL " + name_nccl_version(version) + " (" + library_path() +
                       ") is too old: ddp needs " + name_nccl_version(kOldest) + " or later");
  }
}

std::string describe(ncclResult_t result) {
  const char* const details = nccl().ncclGetLastError(nullptr);
  return std::string(nccl().ncclGetErrorString(result)) +
         (details == nullptr || *details == '\0' ? "" : ": " + std::string(details));
}

}  // namespace ddp::internal
