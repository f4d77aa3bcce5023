// SPDX-License-Identifier: Apache-2.0
#include "ddp/tcp_store.h"

#include <chrono>
#include <ctime>
#include <future>
#include <memory>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "tests/catch.h"
#include "tests/collectives/limit_memory.h"
#include "tests/collectives/ranks.h"
#include "tests/collectives/stores/error_of.h"
#include "tests/contains.h"
#include "tests/unused_port.h"

using namespace std::chrono_literals;
using namespace ddprun::tests;
using ddp::ErrorKind;
using ddp::TcpStore;

TEST_CASE("a master with a world size waits until every store is made") {
  const std::uint16_t port = unused_port();
  const auto make = [port](bool is_master) {
    return std::async(std::launch::async, [=] {
      return std::make_unique<TcpStore>(
          "127.0.0.1", port,
          ddp::TcpStoreOptions{.is_master = is_master, .world_size = 3, .timeout = 20s});
    });
  };
  auto first = make(false);  // may come before the master
  auto master = make(true);
  auto second = make(false);
  const auto served = master.get();
  served->set("k", "v");
  CHECK(first.get()->get("k") == "v");
  CHECK(second.get()->get("k") == "v");
  CHECK(served->num_keys() == 2);  // the key and the count
  CHECK(served->local_address() == "127.0.0.1");
  CHECK(served->port() == port);
}

TEST_CASE("a master that times out reports how many stores were made") {
  const auto error = error_of(
      [] { TcpStore("127.0.0.1", 0, {.is_master = true, .world_size = 2, .timeout = 50ms}); });
  CHECK(error.kind() == ErrorKind::timed_out);
  CHECK(contains(error.what(), "1 of world_size 2 had connected within 50 ms"));
}

TEST_CASE("the error of a store without a server names it, with the system's error") {
  const std::uint16_t port = unused_port();
  const auto error = error_of([&] { TcpStore("127.0.0.1", port, {.timeout = 50ms}); });
  CHECK(error.kind() == ErrorKind::timed_out);
  CHECK(contains(error.what(), "ddp: cannot reach the store at 127.0.0.1:" + std::to_string(port)));
  CHECK(contains(error.what(), "Connection refused"));
}

TEST_CASE("the error of a thread without memory for its stack names that limit") {
  if (!kNeedsLittleMemory) return;
  const auto ended = run_ranks(1, [] {
    static_cast<void>(limit_memory(1 << 20));
    TcpStore("127.0.0.1", 0, {.is_master = true});
  });
  INFO(ended[0].output);
  CHECK(ended[0].code == failed(ErrorKind::system));
  CHECK(contains(ended[0].output, "there is no memory for its stack (ulimit -v)"));
}

TEST_CASE("a port in use is an error") {
  const LiveStore other;
  const auto error = error_of([&] { TcpStore("127.0.0.1", other.port(), {.is_master = true}); });
  CHECK(error.kind() == ErrorKind::system);
  CHECK(
      contains(error.what(), "port " + std::to_string(other.port()) + ": Address already in use"));
}

namespace {

std::chrono::nanoseconds cpu_time(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// The processor time that the other threads use while this one uses 200 ms.
std::chrono::nanoseconds cpu_time_of_others() {
  const auto process = cpu_time(CLOCK_PROCESS_CPUTIME_ID);
  const auto thread = cpu_time(CLOCK_THREAD_CPUTIME_ID);
  while (cpu_time(CLOCK_THREAD_CPUTIME_ID) < thread + 200ms) {
  }
  return cpu_time(CLOCK_PROCESS_CPUTIME_ID) - process - 200ms;
}

}  // namespace

TEST_CASE("a store without descriptors for connections waits, and does not spin") {
  TcpStore master("127.0.0.1", 0, {.is_master = true});
  boost::asio::io_context context;
  boost::asio::ip::tcp::socket socket(context, boost::asio::ip::tcp::v4());
  rlimit usual{};
  getrlimit(RLIMIT_NOFILE, &usual);
  const int next = dup(0);
  close(next);
  const rlimit none_left{static_cast<rlim_t>(next), usual.rlim_max};
  // No CHECK between these: the sanitizer of undefined behaviour needs descriptors.
  const int taken_away = setrlimit(RLIMIT_NOFILE, &none_left);
  socket.connect({boost::asio::ip::address_v4::loopback(), master.port()});
  const auto taken = cpu_time_of_others();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &usual) == 0);
  REQUIRE(taken_away == 0);
  CHECK(taken < 50ms);
  TcpStore client("127.0.0.1", master.port(), {.timeout = 60s});
  client.set("k", "v");
  CHECK(master.get("k") == "v");
}

TEST_CASE("wrong options of a TCP store are refused") {
  CHECK(error_of([] { TcpStore("127.0.0.1", 0); }).kind() == ErrorKind::usage);
  CHECK(error_of([] { TcpStore("127.0.0.1", 1, {.world_size = 0}); }).kind() == ErrorKind::usage);
  CHECK(error_of([] { TcpStore("127.0.0.1", 1, {.timeout = 0ms}); }).kind() == ErrorKind::usage);
  CHECK(error_of([] { TcpStore("no such host", 1); }).kind() == ErrorKind::usage);
}

TEST_CASE("a store is lost for good when its server is gone") {
  auto master = std::make_unique<TcpStore>("127.0.0.1", 0, ddp::TcpStoreOptions{.is_master = true});
  TcpStore client("127.0.0.1", master->port(), {.timeout = 20s});
  auto waiting = std::async(std::launch::async, [&] {
    client.set("k", "v");
    return client.get("never");
  });
  master->get("k");
  master.reset();
  CHECK(error_of([&] { waiting.get(); }).kind() == ErrorKind::unreachable);
  const auto first = error_of([&] { client.set("k", "w"); });
  CHECK(first.kind() == ErrorKind::unreachable);
  CHECK(contains(first.what(), client.name()));
  CHECK(error_of([&] { client.get("k"); }).what() == std::string(first.what()));
}
