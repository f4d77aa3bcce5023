// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/nccl/library.h"

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

}  // namespace

const Nccl& nccl() {
  static const LoadedLibrary<Nccl> loaded(&load_nccl);
  return loaded.table();
}

std::string describe(ncclResult_t result) {
  const char* const details = nccl().ncclGetLastError(nullptr);
  return std::string(nccl().ncclGetErrorString(result)) +
         (details == nullptr || *details == '\0' ? "" : ": " + std::string(details));
}

}  // namespace ddp::internal
