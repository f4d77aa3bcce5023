// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/secret.h"

// Decides for a master about TLS by unencrypted bytes: the first record of a connection, and the
// alert that refuses it (RFC 8446, 5.1 and 6). Pure.

namespace ddprun::rendezvous {

/// The longest first record of a connection. An agent's, with the longest job id, takes half.
inline constexpr std::size_t kMaxFirstRecord = 1024;

/// The beginning of the key's name, which is in an agent's first record.
inline constexpr std::string_view kKeyName = "ddprun";

/// A master's reason to refuse a connection, as the agent reads it.
enum class TlsAlert : unsigned char {
  no_secret = 40,      ///< handshake_failure: the master has none
  wrong_secret = 51,   ///< decrypt_error
  wrong_version = 70,  ///< protocol_version: the two sides use TLS differently
  another_job = 115,   ///< unknown_psk_identity
};

/// Whether a connection that begins with these bytes may be one of TLS.
bool may_be_tls(std::string_view first);

/// The size of the first record, header included; nullopt: more bytes are needed.
std::optional<std::size_t> first_record_size(std::string_view first);

/// An unencrypted record that says that the connection is refused.
std::string alert_record(TlsAlert alert);

/// The key of the control lines of one job. Every node derives the same key from the secret that
/// the user gave it; neither the secret nor another job's key can be derived from it.
struct LineKey {
  std::string name;  ///< an agent sends it first, unencrypted: "ddprun1/" and the job's id
  Secret bytes;      ///< 256 bits
};

/// OpenSSL and the job's key, which all encrypted control lines of a process share.
///
/// TLS 1.3 with a key that both sides have (PSK), and one agreed on for each line (X25519): a
/// secret that becomes known later opens no recorded line. No certificates, tickets, early data.
class Security {
 public:
  /// Uses `secret` of the job `run_id`. Errors: usage (OpenSSL is missing), system.
  static Result<std::shared_ptr<const Security>> of_job(const Secret& secret,
                                                        const std::string& run_id);

  /// Makes it with the key of another process of this node. Errors: as of_job.
  static Result<std::shared_ptr<const Security>> with_key(LineKey key);

  ~Security();
  Security(const Security&) = delete;

  const LineKey& key() const { return key_; }

 private:
  friend class SecureChannel;
  struct Library;

  Security(LineKey key, std::unique_ptr<Library> library);

  LineKey key_;
  std::unique_ptr<Library> library_;
};

/// One end of an encrypted control line: turns bytes into records and back, and knows no socket.
class SecureChannel {
 public:
  enum class Role { agent, master };

  SecureChannel(std::shared_ptr<const Security> security, Role role);
  ~SecureChannel();
  SecureChannel(const SecureChannel&) = delete;

  /// Takes bytes of the other side. After an error there may be a last output, and nothing else.
  /// Errors: usage (this side refuses the other, or is refused, with the reason; empty for a master
  /// that met no agent), unreachable (bytes were changed on their way).
  Result<> receive(std::string_view records);

  /// Encrypts `bytes`, and keeps them until the other side has proven that it has the key.
  void send(std::string_view bytes);

  /// Takes the bytes to send to the other side; empty: none.
  std::string take_output();

  /// Takes the bytes that the other side sent, decrypted.
  std::string take_received();

  /// Whether the other side has proven that it has the key.
  bool is_proven() const { return proven_; }

 private:
  struct Session;

  Result<> read();
  Error refusal();
  std::string refuse();
  std::string refused_because() const;

  std::shared_ptr<const Security> security_;
  const Role role_;
  std::unique_ptr<Session> session_;
  bool proven_ = false;
  bool answered_ = false;
  std::size_t unproven_bytes_ = 0;
  std::string unsent_;  // until the other side is proven
  std::string alert_;   // instead of OpenSSL's
  std::string received_;
};

}  // namespace ddprun::rendezvous
