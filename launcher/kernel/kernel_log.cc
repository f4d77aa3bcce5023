// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/kernel_log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include "base/number.h"
#include "base/text.h"

namespace ddprun::launcher {
namespace {

/// PROC_PID_INIT_INO.
constexpr std::string_view kInitialPidNamespace = "pid:[4026531836]";

constexpr unsigned kMostOfKernel = 7;  // higher priorities have a facility: a program wrote it

}  // namespace

KernelLog::KernelLog(From from, const std::string& path)
    : log_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (from == From::now) lseek(log_.get(), 0, SEEK_END);
}

/// Each read(2) returns one record.
void KernelLog::read(const std::function<void(std::string_view)>& handle) const {
  if (!log_) return;
  std::array<char, 8192> record;
  for (;;) {
    const ssize_t size = ::read(log_.get(), record.data(), record.size());
    if (size < 0 && (errno == EPIPE || errno == EINTR)) continue;  // EPIPE: some were overwritten
    if (size <= 0) return;
    const std::string_view lines(record.data(), static_cast<size_t>(size));
    handle(lines.substr(0, lines.find('\n')));
  }
}

bool in_initial_pid_namespace(const std::string& proc_self) {
  std::array<char, 64> name = {};
  const ssize_t size = readlink((proc_self + "/ns/pid").c_str(), name.data(), name.size());
  return size > 0 &&
         std::string_view(name.data(), static_cast<size_t>(size)) == kInitialPidNamespace;
}

std::string_view kernel_message(std::string_view record) {
  const auto priority = whole_number<unsigned>(take_piece(record, ','), 0, kMostOfKernel);
  const size_t text = record.find(';');
  return priority && text != record.npos ? record.substr(text + 1) : std::string_view();
}

}  // namespace ddprun::launcher
