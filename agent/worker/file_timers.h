// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/system_timer.hpp>

#include "agent/worker/timer_request.h"
#include "base/error.h"

namespace ddprun::agent {

/// The server for PyTorch's FileTimerClient (torch.distributed.elastic.timer): workers start and
/// release timers through a named pipe. If a timer ends, its process gets its signal. As under
/// torchrun, the server runs if TORCHELASTIC_ENABLE_FILE_TIMER is 1; TORCHELASTIC_TIMER_FILE is the
/// pipe.
///
/// Signals only processes of this node's workers, whatever a request says. Destroying it removes
/// the pipe. Thread: the executor's.
class FileTimers {
 public:
  explicit FileTimers(const boost::asio::any_io_executor& executor)
      : pipe_(executor), timer_(executor) {}
  FileTimers(const FileTimers&) = delete;
  ~FileTimers();

  /// If the `environment` that workers inherit asks for a server, makes the pipe: in `folder`, or
  /// where it says. Call it once, before any round, as it may block. Logs a failure.
  void open(const std::vector<std::string>& environment, const std::string& folder);

  /// "NAME=value" strings for each worker.
  const std::vector<std::string>& variables() const { return variables_; }

  /// Begins a round with these workers' ranks by pid. Drops earlier timers.
  void begin(std::map<pid_t, int> ranks);

  /// Forgets a worker: its pid may become another process's.
  void worker_ended(pid_t pid) { ranks_.erase(pid); }

  /// Why a timer signalled this process; empty: none did.
  std::string cause(pid_t pid) const;

 private:
  Result<> make_pipe(const std::string& path);
  void wait();
  void read();
  void take(std::string_view bytes);
  void arm();
  void expire();

  boost::asio::posix::stream_descriptor pipe_;
  boost::asio::system_timer timer_;
  std::string path_;   // empty: there is no pipe
  std::string begun_;  // the beginning of a line
  std::vector<std::string> variables_;
  TimerTable timers_;

  // The latest round.
  std::map<pid_t, int> ranks_;
  std::map<pid_t, std::string> causes_;
};

}  // namespace ddprun::agent
