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
#include <boost/asio/steady_timer.hpp>

#include "agent/job/job_spec.h"
#include "launcher/output/recent_output.h"
#include "launcher/process/fork_template.h"
#include "rendezvous/layout.h"

namespace ddprun::agent {

/// The template of --preload, from its first import to the end of the job: starts it, again if it
/// has died, and knows whether workers can be forked from it. Its output, and the reason if
/// it is not used, go to the log. Without --preload it does nothing.
///
/// Thread: the executor's.
class Preload {
 public:
  /// The import has ended. The failure, without a rank: no worker can be started.
  using Known = std::function<void(std::optional<rendezvous::Failure>)>;

  /// `job` must outlive it. `changed`: a process that is not a worker's has ended.
  Preload(boost::asio::any_io_executor executor, const JobSpec& job, std::string host_name,
          std::function<void()> changed);

  /// Starts the first import, with ddprun's own environment and the flight recorder's variables.
  void begin(std::vector<std::string> inherited);

  /// Calls `known` when it is known whether workers can be forked, perhaps at once. An import that
  /// makes no progress for --hang_timeout is ended, and has failed.
  void when_known(Known known);

  /// The Known is not called any more.
  void cancel() { known_ = nullptr; }

  /// Whether a Known is still to be called.
  bool is_waited_for() const { return known_ != nullptr; }

  /// "importing torch"; empty: no import is under way.
  std::string importing() const;

  /// Whether workers can be forked.
  bool is_ready() const { return state_ == State::ready; }

  /// Calls ForkTemplate::fork. If that makes no progress for --hang_timeout, kills the template.
  void fork(std::vector<launcher::Command> commands, std::function<void(launcher::Forked)> done);
  bool is_forking() const { return template_ && template_->is_forking(); }

  /// No further worker is started; the `done` of fork() follows within a second, or `at_once`.
  void stop_forking(bool at_once) { at_once ? template_->kill() : template_->stop_forking(); }

 private:
  enum class State { off, importing, ready, ended };

  void start();
  void on_import_ended(const launcher::TemplateMessage& message);
  void on_printed(std::string_view line);
  void on_ended(launcher::ExitStatus status, const std::optional<Error>& exec_failure);
  void refuse(const std::string& cause);
  void settle(std::optional<rendezvous::Failure> failure);
  void limit();

  boost::asio::any_io_executor executor_;
  const JobSpec& job_;
  const std::string host_name_;
  const std::function<void()> changed_;
  std::vector<std::string> inherited_;
  State state_ = State::off;
  std::unique_ptr<launcher::ForkTemplate> template_;
  std::unique_ptr<launcher::ForkTemplate>
      ended_template_;  // the one before, which may be our caller
  Known known_;

  // The latest import.
  std::chrono::steady_clock::time_point began_;
  launcher::StderrTail last_lines_;
  int lines_ = 0;
  rendezvous::Failure failure_;
  std::optional<rendezvous::Failure> unreported_;  // it failed before a round waited for it
  boost::asio::steady_timer limit_;
};

}  // namespace ddprun::agent
