// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/error.h"
#include "launcher/process/exit_status.h"
#include "launcher/process/spawn.h"
#include "launcher/process/template_message.h"
#include "launcher/process/worker.h"

namespace ddprun::launcher {

/// The result of fork().
struct Forked {
  std::vector<Child> children;   ///< in the order of the commands
  std::optional<Error> failure;  ///< system: why further commands were not started
};

/// A child process that forks workers on request, each as a child of this process: see
/// template_message.h. It is the own child of set_own_child: one at a time.
///
/// Destroying it kills it. Thread: the executor's.
class ForkTemplate {
 public:
  struct Hooks {
    std::function<void(const TemplateMessage&)> import_ended;  ///< ready, refused or failed
    std::function<void(std::string_view)> printed;             ///< a line of its stdout or stderr
    /// Once; it must not destroy this. The `done` of fork() may follow. `exec_failure`: why it was
    /// never executed.
    std::function<void(ExitStatus, const std::optional<Error>& exec_failure)> ended;
  };

  ForkTemplate(boost::asio::any_io_executor executor, Hooks hooks);
  ~ForkTemplate();
  ForkTemplate(const ForkTemplate&) = delete;
  ForkTemplate& operator=(const ForkTemplate&) = delete;

  /// Starts it with `command`, whose standard streams are set here. Errors: system.
  Result<> start(Command command);

  pid_t pid() const { return worker_ ? worker_->pid() : 0; }
  bool is_running() const { return worker_ && worker_->running(); }

  /// Forks a worker for each command, after `ready`. Calls `done` once, perhaps at once.
  void fork(std::vector<Command> commands, std::function<void(Forked)> done);
  bool is_forking() const { return done_ != nullptr; }

  /// No further worker is started; `done` follows within a second.
  void stop_forking();

  void kill();

 private:
  void read_line();
  void read_output();
  bool take_output();
  void break_line();
  void take_messages();
  void on_message(std::string_view bytes);
  void take_worker(pid_t pid);
  void on_done();
  void on_ended(ExitStatus status);
  void request_next();
  Result<> send_request(const Command& command);
  void finish(std::optional<Error> failure);

  boost::asio::any_io_executor executor_;
  Hooks hooks_;
  std::optional<SpawnBatch> batch_;
  std::optional<Worker> worker_;
  boost::asio::posix::stream_descriptor line_;
  boost::asio::posix::stream_descriptor output_;
  std::string printed_;

  // While it forks.
  std::vector<Command> commands_;
  std::function<void(Forked)> done_;
  Forked forked_;
  OutputEnds next_output_{};  // our ends, of the worker that was requested
  std::optional<Error> failure_;
  bool stopping_ = false;
  boost::asio::steady_timer limit_;
};

}  // namespace ddprun::launcher
