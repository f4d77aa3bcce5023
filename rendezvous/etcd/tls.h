// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace ddprun::rendezvous::etcd {

/// PEM files: the trusted authorities, and ddprun's own certificate and key.
struct TlsFiles {
  std::string authority;  ///< certificates that signed the servers' certificates
  std::string
      certificate;  ///< of this client, with those between it and its authority; empty: none
  std::string key;  ///< of that certificate; empty: none
};

/// The settings of all encrypted connections to etcd.
class TlsClient {
 public:
  /// Reads the files, once. Errors: usage (OpenSSL is missing, or one of the files is unusable:
  /// names its key of --rdzv_conf).
  static Result<std::shared_ptr<const TlsClient>> load(const TlsFiles& files);

  ~TlsClient();
  TlsClient(const TlsClient&) = delete;

 private:
  friend class TlsChannel;
  struct Library;

  explicit TlsClient(std::unique_ptr<Library> library);

  std::unique_ptr<Library> library_;
};

/// This end of an encrypted connection to one of etcd's servers: turns bytes into records and back,
/// and knows no socket. Sends nothing to a server before it has found that the certificate is that
/// of `host`, a name or an address.
class TlsChannel {
 public:
  TlsChannel(std::shared_ptr<const TlsClient> client, const std::string& host);
  ~TlsChannel();
  TlsChannel(const TlsChannel&) = delete;

  /// Takes bytes of the server. After an error there may be a last output, and nothing else.
  /// Errors: usage (one side does not trust the other: why, and what to do), unreachable (bytes
  /// were changed on their way).
  Result<> receive(std::string_view records);

  /// Encrypts `bytes`, and keeps them until the server is trusted.
  void send(std::string_view bytes);

  /// The bytes to send to the server; empty: none.
  std::string take_output();

  /// The bytes that the server sent, decrypted.
  std::string take_received() { return std::exchange(received_, {}); }

  /// The error if the connection is lost for `reason`: a server that refuses this client's
  /// certificate may close the connection before its reason arrives.
  Error lost(const std::string& reason) const;

  /// The server has ended its data: all of it was received.
  bool is_ended() const { return ended_; }

 private:
  struct Session;

  void advance();
  Error failure() const;

  std::shared_ptr<const TlsClient> client_;
  std::string host_;
  std::unique_ptr<Session> session_;
  std::string unsent_;  // until the server is trusted
  std::string received_;
  bool ended_ = false;
};

}  // namespace ddprun::rendezvous::etcd
