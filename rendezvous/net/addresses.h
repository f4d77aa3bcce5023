// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/async_jobs.h"
#include "base/error.h"
#include "rendezvous/net/endpoint.h"

namespace ddprun::rendezvous {

/// The addresses that `endpoint` stands for, in the resolver's order; an empty host is every
/// address of this host. Looking up a name blocks; an address needs no look-up.
/// Errors: unreachable (the name does not resolve).
Result<std::vector<boost::asio::ip::tcp::endpoint>> resolve(const Endpoint& endpoint);

/// Whether `address` is one of this host's: an interface's, a loopback or the unspecified address.
bool is_own_address(const boost::asio::ip::address& address);

/// `address` as text; an IPv4 address that is mapped into IPv6 as IPv4.
std::string plain_text(const boost::asio::ip::address& address);

/// The addresses of this host's interfaces without loopback, as store::address_text writes them: at
/// most `most`, link-local ones last.
std::vector<std::string> own_addresses(std::size_t most);

/// The name of the interface by which this host reaches `peer`, also if that is its own address.
/// Empty: it is a loopback address, or the kernel knows no route. Sends nothing.
std::string interface_towards(const boost::asio::ip::address& peer);

/// The name of the interface with this address; empty: it is a loopback address, or no interface's.
std::string interface_of(const boost::asio::ip::address& own);

/// The names of the interfaces that have a link-local IPv6 address.
std::vector<std::string> link_local_interfaces();

/// A random TCP port that is free at `address` now. It is not reserved, so it is from 20000 to
/// 28999 if one of these is free: the kernel gives connections only ports from 32768 on (ip(7),
/// ip_local_port_range), so none of them before it is listened on. Errors: system.
Result<std::uint16_t> free_port(const boost::asio::ip::address& address);

/// The addresses at which the rendezvous of `endpoint` listens if this host is to have it; nullopt:
/// another host does. `addresses` are the endpoint's, also those of other hosts; `is_host`, if
/// given, decides.
///
/// In two cases it listens on every address, as the others could not reach it otherwise: the
/// endpoint's only address is a loopback one, which a host's own name often has (Debian's
/// 127.0.1.1); or the user says that the address is this host's, but no interface has it, and it
/// may be translated on the way.
std::optional<std::vector<boost::asio::ip::tcp::endpoint>> where_to_host(
    const Endpoint& endpoint, const std::vector<boost::asio::ip::tcp::endpoint>& addresses,
    std::optional<bool> is_host);

/// The name of this host from gethostname(2); "localhost" if that fails.
std::string host_name();

/// Looks names up in the background. The C library blocks as long as its servers are silent, so
/// each look-up has a thread. Asio's own resolver would wait for it at the end of the program; this
/// one does not.
///
/// Destroying it drops the look-up under way: its hook is not called.
/// Thread: the executor's.
class Resolver {
 public:
  using Addresses = std::vector<boost::asio::ip::tcp::endpoint>;
  using Hook = std::function<void(Result<Addresses>)>;

  explicit Resolver(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}

  /// Calls `resolved` later; an earlier look-up is dropped.
  /// Errors: unreachable (the name does not resolve).
  void resolve(const Endpoint& endpoint, Hook resolved);

 private:
  boost::asio::any_io_executor executor_;
  std::unique_ptr<AsyncJobs> look_up_;  // the last one
};

}  // namespace ddprun::rendezvous
