// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/access/store_admission.h"

#include <malloc.h>

#include "tests/catch.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace std::chrono_literals;

namespace {

using Kind = SocketOwner::Kind;

SocketEnds ends(const std::string& from, std::uint16_t port = 40'000) {
  return {from, port, "10.0.0.1", 29'500};
}

/// A gate whose actions are given in words.
struct Gate {
  StoreAdmission gate{30s};
  StoreAdmission::Time now{};

  static std::string words(const StoreAdmission::Actions& actions) {
    std::string text;
    for (const auto& action : actions) {
      if (const auto* admit = std::get_if<StoreAdmission::Admit>(&action)) {
        text += "admit " + std::to_string(admit->connection) + ". ";
      } else if (const auto* refuse = std::get_if<StoreAdmission::Refuse>(&action)) {
        text += "refuse " + std::to_string(refuse->connection) + ": " + refuse->reason + ". ";
      } else {
        const auto& ask = std::get<StoreAdmission::Ask>(action);
        text += "ask line " + std::to_string(ask.line) + ":";
        for (const auto& connection : ask.connections) {
          text += " " + std::to_string(connection.from_port);
        }
        text += ". ";
      }
    }
    return text;
  }

  std::string arrived(StoreAdmission::Number number, const std::string& from) {
    return words(gate.arrived(number, ends(from, static_cast<std::uint16_t>(number))));
  }
  std::string opened(ConnectionId line, const std::string& address,
                     const std::vector<std::string>& others = {}) {
    return words(gate.line_opened(line, address, others));
  }
  std::string closed(ConnectionId line) { return words(gate.line_closed(line, now)); }
  std::string answered(ConnectionId line, const std::vector<bool>& ours) {
    return words(gate.answered(line, ours));
  }
  std::string after(std::chrono::seconds time) {
    now += time;
    return words(gate.tick(now));
  }
};

/// The bytes that malloc has given out; a sanitizer's malloc does not count them.
std::size_t allocated() {
  const auto all = mallinfo2();
  return all.uordblks + all.hblkhd;
}

}  // namespace

TEST_CASE("one node lets in its own user") {
  const auto at_loopback = [](Kind owner) { return entry(StoreAccess::own_user, true, owner); };
  CHECK(at_loopback(Kind::ours) == Entry::admit);
  CHECK(at_loopback(Kind::foreign) == Entry::refuse);
  CHECK(at_loopback(Kind::none) == Entry::refuse);
  CHECK(at_loopback(Kind::unknown) == Entry::admit);

  CHECK(entry(StoreAccess::own_user, false, Kind::none) == Entry::admit);
}

TEST_CASE("several nodes with a secret: the nodes at the connection's address are asked") {
  const auto with_secret = [](bool is_from_here, Kind owner) {
    return entry(StoreAccess::nodes_only, is_from_here, owner);
  };
  CHECK(with_secret(true, Kind::ours) == Entry::admit);
  CHECK(with_secret(true, Kind::foreign) == Entry::ask);
  CHECK(with_secret(false, Kind::none) == Entry::ask);
  CHECK(with_secret(false, Kind::unknown) == Entry::ask);
  CHECK(with_secret(true, Kind::unknown) == Entry::admit);
  CHECK(entry(StoreAccess::everyone, false, Kind::foreign) == Entry::admit);
}

TEST_CASE("a connection is let in if the node at its address confirms it") {
  Gate gate;
  CHECK(gate.opened(1, "10.0.0.2").empty());
  CHECK(gate.arrived(7, "10.0.0.2") == "ask line 1: 7. ");
  CHECK(gate.answered(1, {true}) == "admit 7. ");
  CHECK(gate.arrived(8, "10.0.0.2") == "ask line 1: 8. ");
  CHECK(gate.answered(1, {false}) ==
        "refuse 8: no process of the job's user there has this connection. ");
  CHECK(gate.arrived(9, "10.0.0.3") == "refuse 9: no node of the job is at that address. ");
}

TEST_CASE("connections that come while a question is open share the next question") {
  Gate gate;
  gate.opened(1, "10.0.0.2");
  CHECK(gate.arrived(1, "10.0.0.2") == "ask line 1: 1. ");
  for (StoreAdmission::Number number = 2; number <= 4; ++number) {
    CHECK(gate.arrived(number, "10.0.0.2").empty());
  }
  gate.gate.left(3);
  CHECK(gate.answered(1, {true}) == "admit 1. ask line 1: 2 4. ");
  CHECK(gate.answered(1, {true, true}) == "admit 2. admit 4. ");
}

TEST_CASE("a question has a limited length") {
  Gate gate;
  gate.opened(1, "10.0.0.2");
  for (StoreAdmission::Number number = 0; number <= StoreAdmission::kMostAsked + 1; ++number) {
    gate.arrived(number, "10.0.0.2");
  }
  const auto second = gate.gate.answered(1, {true});
  REQUIRE(second.size() == 2);
  CHECK(std::get<StoreAdmission::Ask>(second[1]).connections.size() == StoreAdmission::kMostAsked);
  const auto third = gate.gate.answered(1, std::vector<bool>(StoreAdmission::kMostAsked, true));
  REQUIRE(third.size() == StoreAdmission::kMostAsked + 1);
  CHECK(std::get<StoreAdmission::Ask>(third.back()).connections.size() == 1);
}

TEST_CASE("one of several nodes at an address can admit a connection, and only all can refuse it") {
  Gate gate;
  gate.opened(1, "10.0.0.2");
  gate.opened(2, "10.0.0.2");
  CHECK(gate.arrived(7, "10.0.0.2") == "ask line 1: 7. ask line 2: 7. ");
  CHECK(gate.answered(1, {false}).empty());
  CHECK(gate.answered(2, {true}) == "admit 7. ");
  CHECK(gate.arrived(8, "10.0.0.2") == "ask line 1: 8. ask line 2: 8. ");
  CHECK(gate.answered(2, {true}) == "admit 8. ");
  CHECK(gate.answered(1, {true}).empty());
}

TEST_CASE("an answer of another length denies, and an unasked one is ignored") {
  Gate gate;
  gate.opened(1, "10.0.0.2");
  CHECK(gate.answered(1, {true}).empty());
  CHECK(gate.answered(2, {true}).empty());
  gate.arrived(7, "10.0.0.2");
  CHECK(gate.answered(1, {true, true}) ==
        "refuse 7: no process of the job's user there has this connection. ");
}

TEST_CASE("the gate waits for a node whose line is lost, and asks it again") {
  Gate gate;
  gate.opened(1, "10.0.0.2");
  gate.arrived(7, "10.0.0.2");
  CHECK(gate.closed(1).empty());
  CHECK(gate.arrived(8, "10.0.0.2").empty());
  CHECK(gate.after(29s).empty());
  CHECK(gate.opened(2, "10.0.0.2") == "ask line 2: 7 8. ");
  CHECK(gate.answered(1, {true, true}).empty());
  CHECK(gate.answered(2, {true, true}) == "admit 7. admit 8. ");
  CHECK_FALSE(gate.gate.deadline());
}

TEST_CASE("the gate stops waiting for a node that does not come back") {
  Gate gate;
  gate.opened(1, "10.0.0.2");
  gate.arrived(7, "10.0.0.2");
  gate.closed(1);
  REQUIRE(gate.gate.deadline() == gate.now + 30s);
  CHECK(gate.after(30s) == "refuse 7: no node of the job is at that address. ");
  CHECK(gate.arrived(8, "10.0.0.2") == "refuse 8: no node of the job is at that address. ");
}

TEST_CASE("another node at the address cannot deny for one whose line is lost") {
  Gate gate;
  gate.opened(1, "10.0.0.2");
  gate.opened(2, "10.0.0.2");
  gate.closed(1);
  gate.arrived(7, "10.0.0.2");
  CHECK(gate.answered(2, {false}).empty());
  CHECK(gate.opened(3, "10.0.0.2") == "ask line 3: 7. ");
  CHECK(gate.answered(3, {true}) == "admit 7. ");
}

TEST_CASE("connections that come and go while a node owes an answer take no memory") {
  Gate gate;
  gate.opened(1, "10.0.0.2");
  CHECK(gate.arrived(1, "10.0.0.2") == "ask line 1: 1. ");
  const std::size_t before = allocated();
  for (StoreAdmission::Number number = 2; number < 300'000; ++number) {
    gate.gate.arrived(number, ends("10.0.0.2"));
    gate.gate.left(number);
  }
  CHECK(allocated() < before + (1 << 20));
  CHECK(gate.answered(1, {true}) == "admit 1. ");
}

TEST_CASE("connections that are closed or cleared while they wait are forgotten") {
  Gate gate;
  gate.opened(1, "10.0.0.2");
  gate.arrived(7, "10.0.0.2");
  gate.gate.left(7);
  CHECK(gate.answered(1, {true}).empty());
  gate.arrived(8, "10.0.0.2");
  gate.gate.clear();
  CHECK(gate.answered(1, {true}).empty());
  gate.closed(1);
  CHECK(gate.after(30s).empty());
}

TEST_CASE("a node is asked once about connections from all addresses that it reports") {
  Gate gate;
  gate.opened(1, "10.0.0.2", {"10.0.0.2", "10.1.0.2", "10.1.0.2", "fe80::2"});
  CHECK(gate.arrived(7, "10.0.0.2") == "ask line 1: 7. ");
  CHECK(gate.answered(1, {true}) == "admit 7. ");
  CHECK(gate.arrived(8, "10.1.0.2") == "ask line 1: 8. ");
  CHECK(gate.answered(1, {true}) == "admit 8. ");
  CHECK(gate.arrived(9, "fe80::2") == "ask line 1: 9. ");
  CHECK(gate.answered(1, {false}) ==
        "refuse 9: no process of the job's user there has this connection. ");
  CHECK(gate.arrived(10, "10.1.0.3") == "refuse 10: no node of the job is at that address. ");
}

TEST_CASE("a node that reports another node's address changes nothing for that node's workers") {
  Gate gate;
  gate.opened(1, "10.0.0.2", {});
  gate.opened(2, "10.0.0.3", {"10.0.0.2"});
  CHECK(gate.arrived(7, "10.0.0.2") == "ask line 1: 7. ask line 2: 7. ");
  CHECK(gate.answered(2, {false}).empty());
  CHECK(gate.answered(1, {true}) == "admit 7. ");
  CHECK(gate.arrived(8, "10.0.0.2") == "ask line 1: 8. ask line 2: 8. ");
  CHECK(gate.answered(1, {true}) == "admit 8. ");  // line 2 need not answer
}

TEST_CASE("if many nodes report one address, some are asked, and each node that connects from it") {
  Gate gate;
  constexpr ConnectionId kNodes = 3 * StoreAdmission::kMostByOther;
  for (ConnectionId line = 1; line <= kNodes; ++line) {
    gate.opened(line, "10.0.0." + std::to_string(line), {"172.17.0.1"});
  }
  gate.opened(kNodes + 1, "172.17.0.1");
  const auto asked = gate.gate.arrived(7, ends("172.17.0.1", 7));
  CHECK(asked.size() == StoreAdmission::kMostByOther + 1);
  CHECK(std::get<StoreAdmission::Ask>(asked.front()).line == kNodes + 1);
}

TEST_CASE("a waiting connection is asked about when a node that reports its address comes") {
  Gate gate;
  gate.opened(1, "10.0.0.2", {"10.1.0.2"});
  gate.closed(1);
  CHECK(gate.arrived(7, "10.1.0.2").empty());
  CHECK(gate.opened(2, "10.0.0.2", {"10.1.0.2"}) == "ask line 2: 7. ");
  CHECK(gate.answered(2, {true}) == "admit 7. ");
  CHECK(gate.arrived(8, "10.1.0.3") == "refuse 8: no node of the job is at that address. ");
}

TEST_CASE("a node that is back is not taken for another one behind the same address") {
  Gate gate;
  gate.opened(1, "10.0.0.2", {"192.168.0.1"});
  gate.opened(2, "10.0.0.2", {"192.168.0.2"});
  gate.closed(1);
  gate.closed(2);
  gate.opened(3, "10.0.0.2", {"192.168.0.2"});
  CHECK(gate.arrived(7, "192.168.0.1").empty());
  CHECK(gate.opened(4, "10.0.0.2", {"192.168.0.1"}) == "ask line 4: 7. ");
}

TEST_CASE("if a node is not back in time, connections from all its addresses are refused") {
  Gate gate;
  gate.opened(1, "10.0.0.2", {"10.1.0.2"});
  gate.closed(1);
  CHECK(gate.arrived(7, "10.1.0.2").empty());
  CHECK(gate.arrived(8, "10.0.0.2").empty());
  const std::string refused = gate.after(30s);
  CHECK(refused.find("refuse 7: no node") != std::string::npos);
  CHECK(refused.find("refuse 8: no node") != std::string::npos);
  CHECK(gate.arrived(9, "10.1.0.2") == "refuse 9: no node of the job is at that address. ");
}
