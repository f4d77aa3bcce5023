// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/secret/openssl.h"

#include <array>
#include <cstdint>
#include <dlfcn.h>
#include <new>

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

TlsSettings::TlsSettings(const OpenSsl& functions)
    : ssl(functions), context(ssl.SSL_CTX_new(ssl.TLS_method())) {
  if (context == nullptr) throw std::bad_alloc();
}

TlsSettings::~TlsSettings() {
  ssl.SSL_CTX_free(context);
}

TlsLine::TlsLine(const TlsSettings& settings, void* state)
    : ssl(settings.ssl),
      line(ssl.SSL_new(settings.context)),
      in_(ssl.BIO_new(ssl.BIO_s_mem())),
      out_(ssl.BIO_new(ssl.BIO_s_mem())) {
  if (line == nullptr || in_ == nullptr || out_ == nullptr) throw std::bad_alloc();
  ssl.SSL_set_bio(line, in_, out_);
  ssl.SSL_set_ex_data(line, 0, state);
}

TlsLine::~TlsLine() {
  ssl.SSL_free(line);  // frees in_ and out_, too
}

void TlsLine::feed(std::string_view records) const {
  ssl.BIO_write(in_, records.data(), static_cast<int>(records.size()));
  ssl.ERR_clear_error();
}

int TlsLine::read(std::string& text) const {
  std::array<char, 4096> buffer;
  int size = 0;
  while ((size = ssl.SSL_read(line, buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
  return ssl.SSL_get_error(line, size);
}

void TlsLine::write(std::string_view bytes) const {
  ssl.SSL_write(line, bytes.data(), static_cast<int>(bytes.size()));
}

std::string TlsLine::take_output() const {
  std::string output;
  std::array<char, 4096> buffer;
  int size = 0;
  while ((size = ssl.BIO_read(out_, buffer.data(), buffer.size())) > 0) {
    output.append(buffer.data(), static_cast<std::size_t>(size));
  }
  return output;
}

}  // namespace ddprun::rendezvous
