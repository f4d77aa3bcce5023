// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/secret/openssl.h"

#include <dlfcn.h>
#include <string>

namespace ddprun::rendezvous {
namespace {

constexpr const char* kLibrary = "libssl.so.3";

Error unusable(const std::string& what) {
  return {Errc::usage, "encryption needs the library " + std::string(kLibrary) + " of OpenSSL 3, " +
                           what +
                           ": install libssl3 (Debian, Ubuntu) or openssl-libs (Fedora, RHEL)"};
}

Result<OpenSsl> load_functions() {
  // Never closed: threads may use it to the end of the process.
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return unusable("which is not installed here");
  OpenSsl table;
#define DDPRUN_FIND(name)                                                     \
  table.name = reinterpret_cast<decltype(table.name)>(dlsym(library, #name)); \
  if (table.name == nullptr) return unusable("and the one here has no " #name);
  DDPRUN_OPENSSL_FUNCTIONS(DDPRUN_FIND)  // libcrypto's, too, which it loads
#undef DDPRUN_FIND
  // Ignores the host's configuration file, which may be on a slow disk, and may switch off needed
  // functions. Cleans up nothing at exit: threads may still use the library and its data.
  constexpr std::uint64_t kOptions = OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT;
  if (table.OPENSSL_init_ssl(kOptions, nullptr) != 1) {
    return Error{Errc::system, std::string(kLibrary) + " cannot be initialized"};
  }
  return table;
}

}  // namespace

Result<const OpenSsl*> OpenSsl::load() {
  static const Result<OpenSsl> loaded = load_functions();
  if (!loaded) return loaded.error();
  return &*loaded;
}

}  // namespace ddprun::rendezvous
