// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/offer.h"

#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "base/hash.h"
#include "collectives/agreement/process_end.h"

namespace ddp::internal {
namespace {

/// The number of a namespace is only unique within its kernel, so the kernel's boot id precedes it.
std::string kernel_and_namespace() {
  const std::string kernel = boot_id();
  std::error_code error;
  const auto link = std::filesystem::read_symlink("/proc/thread-self/ns/net", error);
  return kernel.empty() || error ? "" : kernel + link.string();
}

}  // namespace

std::uint64_t network_namespace() {
  const std::string text = kernel_and_namespace();
  if (text.empty()) return 0;
  ddprun::Fnv64 hash;
  hash.add(text);
  return hash.value();
}

ShmOffer offer_of(const ddprun::Fd& memory) {
  struct stat file{};
  if (::fstat(memory.get(), &file) != 0) return {};
  return {.process = ::getpid(),
          .descriptor = memory.get(),
          .inode = file.st_ino,
          .device = static_cast<std::uint32_t>(file.st_dev),
          .user = ::geteuid()};
}

/// In another PID namespace the number may mean any process. So this checks the file before it
/// opens it: opening a terminal or a pipe has effects.
ddprun::Fd open_offer(const ShmOffer& offer) {
  if (offer.process == 0 || offer.user != ::geteuid()) return {};
  const std::string path =
      "/proc/" + std::to_string(offer.process) + "/fd/" + std::to_string(offer.descriptor);
  struct stat file{};
  const bool is_it = ::stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode) &&
                     file.st_ino == offer.inode &&
                     static_cast<std::uint32_t>(file.st_dev) == offer.device;
  return is_it ? ddprun::Fd(::open(path.c_str(), O_RDWR | O_CLOEXEC)) : ddprun::Fd();
}

}  // namespace ddp::internal
