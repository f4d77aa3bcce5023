// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/endpoint.h"

#include <boost/asio/io_context.hpp>

namespace ddprun::rendezvous {

namespace asio = boost::asio;
using asio::ip::tcp;

std::string Endpoint::text() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<std::vector<tcp::endpoint>> resolve(const Endpoint& endpoint) {
  boost::system::error_code failure;
  const asio::ip::address address = asio::ip::make_address(endpoint.host, failure);
  if (!failure) return std::vector<tcp::endpoint>{{address, endpoint.port}};

  asio::io_context context;
  tcp::resolver resolver(context);
  const auto results = resolver.resolve(endpoint.host, std::to_string(endpoint.port), failure);
  if (failure) {
    return Error{Errc::unreachable,
                 "the host name '" + endpoint.host + "' does not resolve: " + failure.message()};
  }
  std::vector<tcp::endpoint> endpoints;
  for (const auto& result : results) endpoints.push_back(result.endpoint());
  return endpoints;
}

Result<std::uint16_t> free_port(const asio::ip::address& address) {
  asio::io_context context;
  tcp::acceptor acceptor(context);
  boost::system::error_code failure;
  acceptor.open(tcp::endpoint(address, 0).protocol(), failure);
  if (!failure) acceptor.bind({address, 0}, failure);
  tcp::endpoint bound;
  if (!failure) bound = acceptor.local_endpoint(failure);
  if (failure)
    return os_error("cannot find a free port at " + address.to_string(), failure.value());
  return bound.port();
}

}  // namespace ddprun::rendezvous
