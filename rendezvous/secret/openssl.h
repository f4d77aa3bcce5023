// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ddprun::rendezvous {

// OpenSSL 3. It is not linked but loaded when something is encrypted: linking would cost each start
// 1 ms.

// clang-format off
#define DDPRUN_OPENSSL_FUNCTIONS(X)                                                            \
  X(OPENSSL_init_ssl) X(TLS_method) X(EVP_sha256) X(HMAC)                                      \
  X(ERR_clear_error) X(ERR_peek_error) X(ERR_reason_error_string)                              \
  X(BIO_new) X(BIO_s_mem) X(BIO_read) X(BIO_write)                                             \
  X(SSL_CTX_new) X(SSL_CTX_free) X(SSL_CTX_ctrl) X(SSL_CTX_set_ciphersuites)                   \
  X(SSL_CTX_set_num_tickets) X(SSL_set_verify)                                             \
  X(SSL_CTX_set_psk_use_session_callback) X(SSL_CTX_set_psk_find_session_callback)             \
  X(SSL_new) X(SSL_free) X(SSL_set_bio) X(SSL_set_ex_data) X(SSL_get_ex_data)                  \
  X(SSL_set_connect_state) X(SSL_set_accept_state) X(SSL_do_handshake) X(SSL_session_reused)   \
  X(SSL_read) X(SSL_write) X(SSL_get_error)                                                    \
  X(SSL_CIPHER_find) X(SSL_SESSION_new) X(SSL_SESSION_free) X(SSL_SESSION_set1_master_key)     \
  X(SSL_SESSION_set_cipher) X(SSL_SESSION_set_protocol_version)                                \
  X(ERR_peek_last_error) X(SSL_CTX_load_verify_file) X(SSL_CTX_use_certificate_chain_file)     \
  X(SSL_CTX_use_PrivateKey_file) X(SSL_CTX_set_default_passwd_cb) X(SSL_set1_host) X(SSL_ctrl) \
  X(SSL_CTX_set_cert_cb) X(SSL_is_init_finished) X(SSL_get_verify_result)                      \
  X(X509_verify_cert_error_string)
// clang-format on

/// The functions of the library, each with its name.
struct OpenSsl {
#define DDPRUN_FUNCTION_POINTER(name) decltype(&::name) name = nullptr;  // NOLINT
  DDPRUN_OPENSSL_FUNCTIONS(DDPRUN_FUNCTION_POINTER)
#undef DDPRUN_FUNCTION_POINTER

  /// Loads the library at the first call, for good. Errors: usage (it is not installed, or too old:
  /// says what to install).
  static Result<const OpenSsl*> load();
};

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
