// SPDX-License-Identifier: Apache-2.0
#include "collectives/agreement/process_end.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

#include "base/blocking_io.h"
#include "base/fd.h"

namespace ddp::internal {
namespace {

/// Returns "KERNEL/pid:[4026531836]/"; empty if it is not known.
std::string pid_namespace() {
  const std::string kernel = boot_id();
  std::error_code error;
  const auto numbers = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  return kernel.empty() || error ? "" : kernel + "/" + numbers.string() + "/";
}

}  // namespace

std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

std::string process_name() {
  return pid_namespace() + std::to_string(::getpid());
}

void wait_for_end(const std::string& process, std::chrono::milliseconds limit) {
  const std::string here = pid_namespace();
  if (here.empty() || !process.starts_with(here)) return;
  const int pid = std::atoi(process.c_str() + here.size());
  if (pid <= 0 || pid == ::getpid()) return;
  const ddprun::Fd other(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!other) return;  // it has ended
  ddprun::wait_for(other.get(), POLLIN, std::chrono::steady_clock::now() + limit);
}

}  // namespace ddp::internal
