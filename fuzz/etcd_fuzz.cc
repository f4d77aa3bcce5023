// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as etcd's answers. Each has a meaning or is an error, and ddprun's values in etcd
// are read as they are written.
//
// Input: one byte, the request; then the body. If the byte is 'h', the whole answer over HTTP.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include "fuzz/target.h"
#include "rendezvous/etcd/gateway.h"
#include "rendezvous/etcd/messages.h"

namespace {

using namespace ddprun;
using namespace ddprun::rendezvous;
using boost::asio::ip::tcp;
using boost::system::error_code;
using fuzz::require;

void check_answer(std::size_t which, std::string_view body) {
  static const std::array<etcd::Request, 6> requests = {
      etcd::request::Look{},  etcd::request::Grant{},  etcd::request::Create{},
      etcd::request::Renew{}, etcd::request::Record{}, etcd::request::Revoke{}};
  const auto answer = etcd::decode(requests.at(which % requests.size()), body);
  if (!answer) return require(answer.error().code == Errc::protocol, "it is etcd's error");
  if (const auto* granted = std::get_if<etcd::answer::Granted>(&*answer)) {
    require(granted->lease != 0 && granted->ttl.count() > 0, "a lease lasts for a time");
  }
}

void check_values(std::string_view body) {
  if (const auto master = etcd::decode_master(body)) {
    const auto again = etcd::decode_master(etcd::encode_master(*master));
    require(again && again->text() == master->text(), "a master's place is read as it is written");
  }
  if (const auto state = etcd::decode_state(body)) {
    const std::string written = etcd::encode_state(*state);
    const auto again = etcd::decode_state(written);
    require(again && etcd::encode_state(*again) == written, "a state is read as it is written");
  }
  if (const auto token = etcd::decode_login(body)) require(!token->empty(), "a token is one");
  etcd::decode_error(body);
}

/// Asks a server that answers `bytes` and hangs up.
void check_http(const std::string& bytes) {
  static boost::asio::io_context io{1};
  static tcp::acceptor acceptor(io, {boost::asio::ip::address_v4::loopback(), 0});
  io.restart();
  tcp::socket server(io);
  acceptor.async_accept(server, [&](error_code failed) {
    require(!failed, "a connection comes");
    error_code closed;
    boost::asio::write(server, boost::asio::buffer(bytes), closed);
    server.shutdown(tcp::socket::shutdown_send, closed);
  });
  std::optional<Result<etcd::Exchange::Reply>> reply;
  etcd::Exchange::Options options{};
  options.server = {"127.0.0.1", acceptor.local_endpoint().port()};
  options.limit = std::chrono::seconds(60);
  etcd::Exchange exchange(
      io.get_executor(), options, {"/v3/kv/txn", "{}"},
      [&](Result<etcd::Exchange::Reply> got) { reply.emplace(std::move(got)); });
  while (!reply) io.run_one();
  if (*reply) require((*reply)->body.size() <= bytes.size(), "an answer is what came");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'h') return check_http(std::string(body)), 0;
  check_answer(data[0], body);
  check_values(body);
  return 0;
}
