// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/addresses.h"

#include <algorithm>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <optional>
#include <utility>

#include "rendezvous/net/dialer.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/rendezvous/session/network.h"
#include "tests/rendezvous/session/world.h"
#include "tests/unused_port.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
namespace ip = boost::asio::ip;
using ip::make_address;
using Addresses = std::vector<ip::tcp::endpoint>;

namespace {

/// An IPv4 address of this host that others can reach; nullopt: it has none.
std::optional<ip::address> outward_address() {
  ifaddrs* list = nullptr;
  REQUIRE(getifaddrs(&list) == 0);
  std::optional<ip::address> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    const auto* own = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
    const ip::address_v4 address(ntohl(own->sin_addr.s_addr));
    if (!address.is_loopback()) found = address;
  }
  freeifaddrs(list);
  return found;
}

Addresses at(const char* address) {
  return {{make_address(address), 29500}};
}

std::string text(const Addresses& addresses) {
  std::string all;
  for (const auto& address : addresses) all += address.address().to_string() + " ";
  return all;
}

/// The addresses of the rendezvous, as text; "elsewhere": it is on another host.
std::string hosted(const std::string& host, const Addresses& addresses,
                   std::optional<bool> is_host = std::nullopt) {
  const auto where = where_to_host({host, 29500}, addresses, is_host);
  return where ? text(*where) : "elsewhere";
}

constexpr const char* kEverywhere = ":: 0.0.0.0 ";

}  // namespace

TEST_CASE("the interface towards an own address is the one that has it, and never loopback") {
  for (const char* loopback : {"127.0.0.1", "127.7.7.7", "::1"}) {
    CHECK(interface_towards(make_address(loopback)).empty());
    CHECK(interface_of(make_address(loopback)).empty());
  }
  CHECK(interface_of(make_address("192.0.2.77")).empty());
  const auto outward = outward_address();
  if (!outward) return;
  CHECK_FALSE(interface_of(*outward).empty());
  CHECK(interface_towards(*outward) == interface_of(*outward));
}

TEST_CASE("an endpoint is written as users write it") {
  CHECK(Endpoint{"gpu-07", 29500}.text() == "gpu-07:29500");
  CHECK(Endpoint{"fd00::7", 29500}.text() == "[fd00::7]:29500");
  CHECK(Endpoint{"", 29500}.text() == ":29500");
}

TEST_CASE("addresses need no look-up, and an empty host is every address of this host") {
  CHECK(text(must(resolve({"192.0.2.1", 1}))) == "192.0.2.1 ");
  CHECK(text(must(resolve({"fd00::7", 1}))) == "fd00::7 ");
  CHECK(must(resolve({"192.0.2.1", 4711})).front().port() == 4711);
  CHECK(text(must(resolve({"", 1}))) == ":: 0.0.0.0 ");
}

TEST_CASE("names are looked up, and an unknown name is unreachable") {
  const Addresses local = must(resolve({"localhost", 4711}));
  REQUIRE_FALSE(local.empty());
  CHECK(local.front().address().is_loopback());
  CHECK(local.front().port() == 4711);
  const auto nothing = resolve({"no-such-host.invalid", 1});
  REQUIRE(nothing.has_error());
  CHECK(nothing.error().code == Errc::unreachable);
  CHECK(nothing.error().message.find("'no-such-host.invalid' does not resolve: ") !=
        std::string::npos);
}

TEST_CASE("loopback, unspecified and interfaces' addresses are this host's, others are not") {
  for (const char* own : {"127.0.0.1", "127.0.1.1", "::1", "0.0.0.0", "::"}) {
    INFO(own);
    CHECK(is_own_address(make_address(own)));
  }
  for (const char* other : {"192.0.2.1", "2001:db8::1"}) {
    INFO(other);
    CHECK_FALSE(is_own_address(make_address(other)));
  }
  const auto outward = outward_address();
  if (!outward) {
    WARN("not checked: this host has no address beside loopback");
    return;
  }
  CHECK(is_own_address(*outward));
  const auto told = own_addresses(SIZE_MAX);
  CHECK(std::find(told.begin(), told.end(), store::address_text(*outward)) != told.end());
}

TEST_CASE("the addresses that a host reports have no loopback ones among them, and no zones") {
  const auto told = own_addresses(SIZE_MAX);
  for (const std::string& text : told) {
    INFO(text);
    CHECK(is_own_address(make_address(text)));
    CHECK_FALSE(make_address(text).is_loopback());
    CHECK(text.find('%') == std::string::npos);
  }
  CHECK(own_addresses(1).size() == std::min<std::size_t>(told.size(), 1));
}

TEST_CASE("a free port can be listened on") {
  World world;
  world.port = must(free_port(make_address("127.0.0.1")));
  const std::uint16_t chosen = world.port;
  world.start_server(RoundSpec{});
  CHECK(world.server->address().port() == chosen);
  CHECK(free_port(make_address("192.0.2.1")).has_error());
}

TEST_CASE("a free port is outside the kernel's range for connections") {
  for (const char* address : {"127.0.0.1", "0.0.0.0"}) {
    const std::uint16_t port = must(free_port(make_address(address)));
    CHECK(port >= 20'000);
    CHECK(port < 29'000);
  }
}

TEST_CASE("the rendezvous is here if its endpoint is an address of this host") {
  CHECK(hosted("localhost", at("127.0.0.1")) == "127.0.0.1 ");
  CHECK(hosted("127.0.0.1", at("127.0.0.1")) == "127.0.0.1 ");
  CHECK(hosted("::1", at("::1")) == "::1 ");
  CHECK(hosted("", {{make_address("::"), 29500}, {make_address("0.0.0.0"), 29500}}) == kEverywhere);
  CHECK(hosted("192.0.2.1", at("192.0.2.1")) == "elsewhere");
  CHECK(hosted("node0", at("192.0.2.1")) == "elsewhere");
  CHECK(hosted("node0", {}) == "elsewhere");
  const auto outward = outward_address();
  if (!outward) {
    WARN("not checked: this host has no address beside loopback");
    return;
  }
  CHECK(hosted("node0", {{make_address("192.0.2.1"), 29500}, {*outward, 29500}}) ==
        "192.0.2.1 " + outward->to_string() + " ");
}

TEST_CASE("if this host's name stands for loopback here, the rendezvous listens on every address") {
  CHECK(hosted("node0", at("127.0.1.1")) == kEverywhere);
  CHECK(hosted("job.localhost", at("127.0.0.1")) == "127.0.0.1 ");
}

TEST_CASE("a flag that says whether this is the host is believed") {
  CHECK(hosted("node0", at("192.0.2.1"), true) == kEverywhere);
  CHECK(hosted("192.0.2.1", at("192.0.2.1"), true) == kEverywhere);
  CHECK(hosted("node0", {}, true) == kEverywhere);
  CHECK(hosted("127.0.0.1", at("127.0.0.1"), true) == "127.0.0.1 ");
  CHECK(hosted("127.0.0.1", at("127.0.0.1"), false) == "elsewhere");
  CHECK(hosted("", {{make_address("::"), 29500}}, false) == "elsewhere");
}

TEST_CASE("a look-up does not block, and a later one replaces it") {
  World world;
  Resolver resolver(world.io.get_executor());
  int first = 0;
  std::optional<Addresses> found;
  resolver.resolve({"no-such-host.invalid", 1}, [&](const auto&) { ++first; });
  resolver.resolve({"localhost", 4711},
                   [&](auto addresses) { found = must(std::move(addresses)); });
  CHECK_FALSE(found);
  world.until([&] { return found.has_value(); });
  CHECK(found->front().port() == 4711);

  std::optional<Error> error;
  resolver.resolve({"no-such-host.invalid", 1}, [&](const auto& a) { error = a.error(); });
  world.until([&] { return error.has_value(); });
  CHECK(error->code == Errc::unreachable);
  CHECK(first == 0);
}

TEST_CASE("a destroyed resolver calls no hook, whenever the answer comes") {
  World world;
  int called = 0;
  {
    Resolver gone(world.io.get_executor());
    gone.resolve({"localhost", 1}, [&](const auto&) { ++called; });
  }
  Resolver resolver(world.io.get_executor());
  bool answered = false;
  resolver.resolve({"localhost", 1}, [&](const auto&) { answered = true; });
  world.until([&] { return answered; });
  CHECK(called == 0);
}

TEST_CASE("each address of a name is tried before a connection fails") {
  World world;
  const ListenSocket door(world);
  std::optional<ip::tcp::socket> connected;
  std::optional<Error> failed;
  const Dialer::Hooks hooks = {[&](ip::tcp::socket socket) { connected = std::move(socket); },
                               [&](Error error) { failed = std::move(error); }};
  // localhost is also ::1, and this port is closed there.
  Dialer by_name(world.io.get_executor(), {"localhost", door.endpoint().port}, {}, hooks);
  by_name.dial(World::kNever);
  world.until([&] { return connected || failed; });
  REQUIRE(connected);
  CHECK(connected->remote_endpoint().port() == door.endpoint().port);

  connected.reset();
  const std::uint16_t nobody = tests::unused_port();
  Dialer refused(world.io.get_executor(), {"127.0.0.1", nobody}, {}, hooks);
  refused.dial(World::kNever);
  world.until([&] { return connected || failed; });
  REQUIRE(failed);
  CHECK(failed->code == Errc::unreachable);
  CHECK(failed->message == "Connection refused");
}

TEST_CASE("a cancelled attempt calls no hook, and the next one may begin") {
  World world;
  ListenSocket door(world);
  int connected = 0;
  Dialer dialer(world.io.get_executor(), door.endpoint(), {},
                {[&](const ip::tcp::socket&) { ++connected; }, [](const Error&) {}});
  dialer.dial(World::kNever);
  dialer.cancel();
  dialer.dial(World::kNever);
  dialer.dial(World::kNever);  // one is under way
  world.until([&] { return connected > 0; });
  world.io.poll();
  CHECK(connected == 1);
}
