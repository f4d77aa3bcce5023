// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// A master's decisions about TLS by bytes that are not encrypted: the first record of a
// connection, and the alert that refuses it (RFC 8446, 5.1 and 6). Pure.

namespace ddprun::rendezvous {

/// The longest first record of a connection. That of an agent, with the longest job id, takes half.
inline constexpr std::size_t kMaxFirstRecord = 1024;

/// Is in an agent's first record: the start of the name of its key.
inline constexpr std::string_view kKeyName = "ddprun";

/// Why a master refuses a connection, as the agent reads it.
enum class TlsAlert : unsigned char {
  no_secret = 40,      ///< handshake_failure: the master has none
  wrong_secret = 51,   ///< decrypt_error
  wrong_version = 70,  ///< protocol_version: of how ddprun uses TLS
  another_job = 115,   ///< unknown_psk_identity
};

/// Whether a connection that begins so may be one of TLS, as far as its bytes go.
bool may_be_tls(std::string_view first);

/// The size of its first record, header included; nullopt: more bytes are needed.
std::optional<std::size_t> first_record_size(std::string_view first);

/// A record, unencrypted, that says that the connection is refused.
std::string alert_record(TlsAlert alert);

}  // namespace ddprun::rendezvous
