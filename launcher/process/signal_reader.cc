// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/signal_reader.h"

#include <csignal>
#include <sys/signalfd.h>
#include <unistd.h>
#include <utility>

#include "base/fd.h"
#include "launcher/process/signals.h"
#include "launcher/process/stop_requests.h"

namespace ddprun::launcher {

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
