// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

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

}  // namespace ddprun::rendezvous
