// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/async_jobs.h"
#include "base/error.h"
#include "base/secret.h"
#include "rendezvous/secret/secure_channel.h"
#include "rendezvous/wire/control_connection.h"

namespace ddprun::rendezvous {

/// Asks a master for its secret, which it hands out sealed (munge), on a connection that serves
/// nothing else and encrypts nothing: a client that cannot open the answer learns nothing from it.
/// The job's id and this node's name are not sent.
///
/// Destroying it closes the connection; `done` is not called any more.
/// Thread: the executor's.
class KeyRequest {
 public:
  /// Opens a sealed secret. It may block, and runs on a thread. Errors: as munge_open.
  using Open = std::function<Result<Secret>(const std::string& sealed)>;
  using Key = std::shared_ptr<const Security>;
  using Done = std::function<void(Result<Key>)>;

  KeyRequest(boost::asio::any_io_executor executor, Open open, std::string run_id);

  /// `socket` is connected to the master. Then `done` is called once, unless there is another
  /// ask() or a cancel() before. Errors: usage (this node is refused, cannot open the secret, or
  /// has no OpenSSL: a sentence about the master), protocol (it is no master), others (it may be
  /// asked again).
  void ask(boost::asio::ip::tcp::socket socket, Done done);

  void cancel();

 private:
  void on_answer(std::string_view body);
  void open(std::string sealed);
  void on_opened(const Result<Secret>& secret);
  void end(Result<Key> key);

  Open open_;
  const std::string run_id_;
  boost::asio::steady_timer limit_;
  std::unique_ptr<ControlConnection> connection_;
  AsyncJobs jobs_;
  Done done_;
  std::shared_ptr<char> asking_;  // null: none is under way; handlers check that it is theirs
};

}  // namespace ddprun::rendezvous
