// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/async_jobs.h"
#include "base/fd.h"
#include "store/socket_owner.h"

namespace ddprun::store {

/// An address in the form of SocketEnds.
std::string address_text(const boost::asio::ip::address& address);

/// The ends of an accepted connection. If it is already closed, they belong to nobody.
SocketEnds ends_of(const boost::asio::ip::tcp::socket& accepted);

/// Asks this host's kernel who holds the connecting end of a TCP connection: by sock_diag(7), in
/// some microseconds, or, if that is refused, on a thread from /proc/net/tcp. If neither works, all
/// owners are unknown, which is logged once for debugging.
///
/// The destructor drops the answers that are still to come. Thread: the executor's.
class OwnerLookup {
 public:
  using Found = std::function<void(const std::vector<SocketOwner>&)>;

  explicit OwnerLookup(boost::asio::any_io_executor executor);

  /// Whether the kernel answers at once.
  bool tells_at_once() { return open(); }

  /// The owner, if the kernel answers at once.
  std::optional<SocketOwner> at_once(const SocketEnds& ends);

  /// Calls `found` with the owners of all `connections`, in their order. If the kernel answers at
  /// once, calls it before returning.
  void look_up(std::vector<SocketEnds> connections, Found found);

 private:
  bool open();
  SocketOwner judge(const KernelSockets& found);
  SocketOwner unknown();

  const std::uint32_t user_;
  bool tells_users_apart_ = false;
  bool opened_ = false;
  bool said_unknown_ = false;
  Fd netlink_;  // empty: not opened yet, or refused
  AsyncJobs jobs_;
};

}  // namespace ddprun::store
