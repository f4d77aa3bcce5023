// SPDX-License-Identifier: Apache-2.0
// Connections to a rank that do not come from other ranks.
#include <cstdint>
#include <poll.h>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include "collectives/backends/cpu/frame.h"
#include "ddp/process_group.h"
#include "tests/catch.h"
#include "tests/collectives/backends/mail.h"
#include "tests/collectives/ranks.h"
#include "tests/collectives/stores/job_store.h"

using namespace ddprun::tests;
using ddp::ProcessGroup;
namespace asio = boost::asio;

namespace {

/// The address at which rank 1 listens, and the token that it requires there.
std::pair<asio::ip::tcp::endpoint, std::uint64_t> listener() {
  std::istringstream text(job_store()->get("ddp/0/joined/1"));
  std::string address;
  std::uint16_t port = 0;
  std::uint64_t token = 0;
  text >> address >> port >> token;
  return {{asio::ip::make_address(address), port}, token};
}

asio::ip::tcp::endpoint listen_address() {
  return listener().first;
}

}  // namespace

TEST_CASE("bytes on a foreign connection do not disturb messages") {
  check_ranks(3, [](ProcessGroup& group) {
    group.barrier();
    asio::io_context context;
    std::vector<asio::ip::tcp::socket> sockets;
    for (const std::string& bytes :
         {std::string(), std::string("GET / HTTP/1.1\r\n\r\n"), std::string(1 << 16, '\0'),
          std::string(100, '\xff'), std::string("\1\2\1\0\0\0\0\0", 8),
          std::string("\1\7\1\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 24)}) {
      auto& socket = sockets.emplace_back(context);
      socket.connect(listen_address());
      boost::system::error_code refused;  // the rank need not read to the end
      asio::write(socket, asio::buffer(bytes), refused);
    }
    both_ways(group);
  });
}

TEST_CASE("a rank says hello once: messages on a second connection in its name are not taken") {
  check_ranks(2, [](ProcessGroup& group) {
    const bool sends = group.rank() == 0;
    const auto message = [&](int tag) {
      Mail mail(group);
      sends ? mail.send(1, tag, 1) : mail.receive(0, tag, 1);
      mail.wait();
    };
    message(1);
    if (sends) {
      const auto [there, token] = listener();
      using ddp::internal::Frame;
      const Frame hello{.kind = Frame::Kind::hello, .tag = group.rank(), .number = token};
      asio::io_context context;
      asio::ip::tcp::socket socket(context);
      socket.connect(there);
      asio::write(socket, asio::buffer(&hello, sizeof hello));
      pollfd end{socket.native_handle(), POLLIN, 0};
      check(::poll(&end, 1, 40'000) == 1, "a second hello is accepted");
    }
    message(2);
    group.barrier();
  });
}

TEST_CASE("silent foreign connections are limited in number, and keep no rank out") {
  check_ranks(3, [](ProcessGroup& group) {
    // The oldest connections have to make room for the later ones.
    constexpr std::size_t kComing = 300;
    const std::size_t staying = 64 + 3 * static_cast<std::size_t>(group.size());
    asio::io_context context;
    std::vector<asio::ip::tcp::socket> sockets;
    if (group.rank() == 0) {
      const auto there = listen_address();
      while (sockets.size() < kComing) sockets.emplace_back(context).connect(there);
      for (std::size_t i = 0; i < kComing - staying; ++i) {
        pollfd end{sockets[i].native_handle(), POLLIN, 0};
        check(::poll(&end, 1, 60'000) == 1, "stranger " + std::to_string(i) + " is still there");
      }
    }
    group.barrier();
    both_ways(group);
  });
}
