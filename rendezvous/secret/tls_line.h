// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "rendezvous/secret/openssl.h"

namespace ddprun::rendezvous {

/// The settings that TLS lines share. Throws std::bad_alloc.
struct TlsSettings {
  explicit TlsSettings(const OpenSsl& functions);
  ~TlsSettings();
  TlsSettings(const TlsSettings&) = delete;

  const OpenSsl& ssl;
  SSL_CTX* const context;
};

/// One end of a line of TLS: OpenSSL between bytes and records, both in memory. Throws
/// std::bad_alloc.
struct TlsLine {
  /// `state` is what OpenSSL's callbacks get as the line's ex_data.
  TlsLine(const TlsSettings& settings, void* state);
  ~TlsLine();
  TlsLine(const TlsLine&) = delete;

  /// Gives records of the other end to the next call, with an empty queue of errors.
  void feed(std::string_view records) const;

  /// Appends all decrypted bytes to `text`. Returns why no more come, a number of SSL_get_error.
  int read(std::string& text) const;

  /// Encrypts `bytes` into memory: all of them.
  void write(std::string_view bytes) const;

  /// Returns the records to send to the other end; empty: none.
  std::string take_output() const;

  const OpenSsl& ssl;
  SSL* const line;

 private:
  BIO* const in_;
  BIO* const out_;
};

}  // namespace ddprun::rendezvous
