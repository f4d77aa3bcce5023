// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/signal_reader.h"

#include <algorithm>
#include <csignal>
#include <sys/signalfd.h>
#include <unistd.h>
#include <utility>

#include "base/blocking_io.h"
#include "base/fd.h"
#include "launcher/kernel/descendants.h"
#include "launcher/process/signals.h"

namespace ddprun::launcher {
namespace {

/// A healthy agent reads a signal within milliseconds.
constexpr std::chrono::seconds kTimeToRead{2};

bool asks_to_stop(int signal) {
  return std::find(kStopSignals.begin(), kStopSignals.end(), signal) != kStopSignals.end();
}

}  // namespace

void StopRequests::forward(int signal, bool from_terminal) {
  const sigval value = {.sival_int = from_terminal ? kFromTerminal : 0};
  if (sigqueue(agent_, signal, value) != 0) kill(agent_, signal);  // no memory for the value
  if (!asks_to_stop(signal)) return;
  kill(agent_, SIGCONT);
  last_ = signal;
  if (first_ == 0) {
    first_ = signal;
    from_ctrl_c_ = signal == SIGINT && from_terminal;
  } else if (!read_by_) {
    read_by_ = Clock::now() + kTimeToRead;
  }
}

int StopRequests::timeout() const {
  return read_by_ ? poll_time(*read_by_) : -1;
}

bool StopRequests::are_unread() {
  if (!ignored_ && read_by_ && Clock::now() >= *read_by_) {
    read_by_.reset();
    ignored_ = has_pending_signal(agent_, last_);
  }
  return ignored_;
}

Result<> SignalReader::start(std::function<void(int signal)> received) {
  Result<Fd> signal_fd = open_signal_fd();
  if (!signal_fd) return signal_fd.error();
  received_ = std::move(received);
  signals_.assign(signal_fd->release());
  read_next();
  return {};
}

void SignalReader::read_next() {
  signals_.async_wait(
      boost::asio::posix::descriptor_base::wait_read, [this](boost::system::error_code failure) {
        if (failure) return;
        signalfd_siginfo info = {};
        while (read(signals_.native_handle(), &info, sizeof info) == sizeof info) {
          const int signal = static_cast<int>(info.ssi_signo);
          const bool is_forwarded = info.ssi_pid == static_cast<unsigned>(getppid());
          is_from_terminal_ =
              is_forwarded && info.ssi_code == SI_QUEUE && info.ssi_int == kFromTerminal;
          if (signal != SIGTSTP && !is_repeated(signal, is_forwarded)) received_(signal);
        }
        read_next();
      });
}

/// Whether it has already come by the other way.
bool SignalReader::is_repeated(int signal, bool is_forwarded) {
  if (signal != SIGTERM && signal != SIGINT && signal != SIGHUP) return false;
  Count& count = stop_requests_[signal];
  int& own = is_forwarded ? count.forwarded : count.direct;
  const int other = is_forwarded ? count.direct : count.forwarded;
  return ++own <= other;
}

}  // namespace ddprun::launcher
