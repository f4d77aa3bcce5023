// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/nccl/library.h"

#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <pwd.h>
#include <unistd.h>
#include <vector>

#include "collectives/backends/nccl/config.h"

namespace ddp::internal {
namespace {

/// Null where the library has none of that name.
template <class F>
void find_optional(F*& function, void* library, const char* name) {
  function = reinterpret_cast<F*>(::dlsym(library, name));
}

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

/// The first whose calls outlive the thread that makes them: before it the state of a group of
/// calls is in that thread's memory, and NCCL's own threads go on to use it.
constexpr int kOldest = NCCL_VERSION(2, 23, 0);

/// Of the loaded library; empty if the loader does not say.
std::string library_path() {
  Dl_info info{};
  const auto* const function = reinterpret_cast<const void*>(nccl().ncclGetVersion);
  return ::dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

/// A variable of NCCL, and the file that sets it; empty: the environment does.
struct NcclVariable {
  std::string value;
  std::string file = {};
};

/// The files that set what the environment does not; the first that has a variable counts.
std::vector<std::string> list_settings_files() {
  std::vector<std::string> all;
  const char* const own = std::getenv("NCCL_CONF_FILE");
  if (own != nullptr && *own != '\0') {
    all.emplace_back(own);
  } else if (const passwd* const user = ::getpwuid(::getuid())) {
    all.push_back(std::string(user->pw_dir) + "/.nccl.conf");
  }
  all.emplace_back("/etc/nccl.conf");
  return all;
}

/// As NCCL finds it: it reads the files in its first call. An empty value: it is set nowhere.
NcclVariable find_variable(const std::string& name) {
  if (const char* const value = std::getenv(name.c_str())) return {value};
  for (const std::string& path : list_settings_files()) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with(name + "=")) return {line.substr(name.size() + 1), path};
    }
  }
  return {};
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
  // NCCL lets the variable decide, whatever a program asks for.
  const NcclVariable blocking = find_variable("NCCL_COMM_BLOCKING");
  if (std::strtol(blocking.value.c_str(), nullptr, 0) == 1) {
    refuse_gpu_buffers("NCCL_COMM_BLOCKING=1" +
                       (blocking.file.empty() ? "" : ", in " + blocking.file + ",") +
                       " would make calls wait inside NCCL, where they cannot be ended: unset it");
  }
}

std::string describe(ncclResult_t result) {
  const char* const details = nccl().ncclGetLastError(nullptr);
  return std::string(nccl().ncclGetErrorString(result)) +
         (details == nullptr || *details == '\0' ? "" : ": " + std::string(details));
}

}  // namespace ddp::internal
