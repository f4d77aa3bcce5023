// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/resolver.h"

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

#include <boost/asio/post.hpp>

#include "base/fd.h"

namespace ddprun::rendezvous {
namespace {

/// The thread's side; it may outlive the Resolver.
struct LookUp {
  Endpoint endpoint;
  Fd answered;
  Result<Resolver::Addresses> addresses = Resolver::Addresses();
  std::atomic<bool> done = false;  // what goes through the kernel orders nothing in C++

  void run() {
    addresses = resolve(endpoint);
    done.store(true, std::memory_order_release);
    const std::uint64_t one = 1;
    while (write(answered.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
  }
};

Result<std::shared_ptr<LookUp>> begin(const Endpoint& endpoint) {
  auto look_up = std::make_shared<LookUp>();
  look_up->endpoint = endpoint;
  look_up->answered.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!look_up->answered) return os_error("cannot look up '" + endpoint.host + "'", errno);
  try {
    std::thread([look_up] { look_up->run(); }).detach();
  } catch (const std::system_error& error) {
    return os_error("cannot look up '" + endpoint.host + "'", error.code().value());
  }
  return look_up;
}

}  // namespace

void Resolver::resolve(const Endpoint& endpoint, Hook resolved) {
  boost::system::error_code ignored;
  answered_.close(ignored);
  asked_ = std::make_shared<char>();
  Result<std::shared_ptr<LookUp>> look_up = begin(endpoint);
  const int event = look_up ? fcntl((*look_up)->answered.get(), F_DUPFD_CLOEXEC, 0)
                            : eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
  answered_.assign(event, ignored);
  answered_.async_wait(
      boost::asio::posix::descriptor_base::wait_read,
      [this, asked = std::weak_ptr(asked_), look_up = std::move(look_up),
       resolved = std::move(resolved)](boost::system::error_code failure) {
        if (asked.expired()) return;
        std::uint64_t count = 0;
        const ssize_t got = read(answered_.native_handle(), &count, sizeof count);
        boost::system::error_code close_failure;
        answered_.close(close_failure);
        if (!look_up) return resolved(look_up.error());
        if (failure || got < 0 || !(*look_up)->done.load(std::memory_order_acquire)) {
          return resolved(os_error("cannot look up a name", errno));
        }
        resolved(std::move((*look_up)->addresses));
      });
}

}  // namespace ddprun::rendezvous
