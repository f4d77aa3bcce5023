// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/error.h"
#include "base/fd.h"
#include "launcher/process/exit_status.h"
#include "launcher/process/spawn.h"
#include "launcher/process/worker.h"
#include "remote/job.h"

namespace ddprun::remote {

/// The process that starts the agent of a host and stays connected with it, such as an ssh. The
/// destructor kills that process. Thread: the executor's.
class Connection {
 public:
  /// Starts the process, and sends the order and the secret, if there is one. Errors: system.
  static Result<std::unique_ptr<Connection>> open(const boost::asio::any_io_executor& executor,
                                                  const HostSpec& host,
                                                  std::shared_ptr<const Secret> secret);

  /// Use `open` instead.
  Connection(const boost::asio::any_io_executor& executor, launcher::Spawned spawned, Fd input);

  /// The read ends of its stdout and stderr; call each once.
  Fd take_out() { return std::move(out_); }
  Fd take_err() { return std::move(err_); }

  /// Calls `ended` once, when the process has ended.
  void when_ended(std::function<void(launcher::ExitStatus)> ended);

  /// Call at each SIGCHLD.
  void child_changed() { worker_.child_changed(); }

  /// Sends a signal to the agent; 0: a sign of life.
  void send(int signal);

  /// Ends the process; the agent ends when it notices that.
  void kill();

  pid_t pid() const { return worker_.pid(); }

  /// Why the process could not be executed; call when it has ended.
  std::optional<Error> exec_failure() const { return batch_.exec_failure(0); }

 private:
  void send_order(std::string order, std::shared_ptr<const Secret> secret);
  void write();
  void on_written(boost::system::error_code failed);

  launcher::SpawnBatch batch_;  // outlives the worker, which may not have called exec yet
  Fd out_, err_;
  launcher::Worker worker_;
  boost::asio::posix::stream_descriptor input_;
  std::string sending_;  // a write is under way while it is not empty
  std::string unsent_;
};

}  // namespace ddprun::remote
