// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/pairs.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/doctor/interfaces.h"
#include "cli/doctor/json.h"
#include "tests/catch.h"
#include "tests/contains.h"

using namespace ddprun;
using namespace ddprun::doctor;
using tests::contains;

namespace {

std::vector<Facts> three_nodes() {
  std::vector<Facts> nodes(3);
  for (int i = 0; i < 3; ++i) {
    Facts& node = nodes[static_cast<size_t>(i)];
    node.host = std::string("abc").substr(static_cast<size_t>(i), 1);
    node.way = node.gloo_address = node.nccl_address = "10.0.0." + std::to_string(i + 1);
    node.interface = node.nccl_interface = "eth0";
    node.mtu = 1500;
    node.speed = 1000;
  }
  return nodes;
}

Link link(int from, int to) {
  Link link;
  link.from = from;
  link.to = to;
  link.use = "ddprun and Gloo and NCCL";
  link.address = "10.0.0." + std::to_string(to + 1);
  link.round_trip = 0.2;
  return link;
}

Link measured(int from, int to, double speed) {
  Link one = link(from, to);
  one.is_measured = true;
  one.mbits_per_second = speed;
  one.path_mtu = 1500;
  return one;
}

Link loaded(int from, int to, double speed) {
  Link one = measured(from, to, speed);
  one.under_load = true;
  one.lost_large = true;  // ignored under load, where packets may be late
  one.clock_ahead = 90;   // ignored, too
  return one;
}

std::vector<Link> all_links() {
  return {link(0, 1), link(0, 2), link(1, 0), link(1, 2), link(2, 0), link(2, 1)};
}

/// The only warning or failure.
Finding only_bad(const std::vector<Link>& links) {
  Findings found = judge_links(three_nodes(), links);
  std::erase_if(found, [](const Finding& f) { return f.level == Level::ok; });
  REQUIRE(found.size() == 1);
  CHECK_FALSE(found[0].remedy.empty());
  return found[0];
}

}  // namespace

TEST_CASE("doctor: each of a few nodes tries every address of every other node once") {
  std::vector<Facts> nodes = three_nodes();
  std::vector<Target> all = targets(0, nodes, "node1");
  REQUIRE(all.size() == 2);
  CHECK(all[0].use == "ddprun and Gloo and NCCL");
  nodes[1].way = "";  // it hosts the rendezvous and reaches it by a loopback address
  nodes[1].gloo_address = "127.0.1.1";
  nodes[2].nccl_address = "192.168.7.1";
  all = targets(0, nodes, "node1");
  REQUIRE(all.size() == 4);
  CHECK(all[0].address == "node1");
  CHECK(all[1].use == "NCCL");
  CHECK(all[3].use == "NCCL");
  CHECK(all[3].address == "192.168.7.1");
}

TEST_CASE("doctor: each of 1000 nodes tries 10 others, and each of 32 nodes tries all") {
  std::vector<Facts> nodes(1000);
  for (Facts& node : nodes) node.way = "10.0.0.1";
  CHECK(targets(5, nodes, "").size() == 10);
  std::vector<Facts> few(32);
  CHECK(targets(5, few, "m").size() == 31);
}

TEST_CASE("doctor: in each turn two nodes are each other's partners, and few nodes all meet") {
  for (int nodes = 1; nodes <= 9; ++nodes) {
    std::set<std::pair<int, int>> met;
    for (int turn = 0; turn < turns(nodes); ++turn) {
      int resting = 0;
      for (int rank = 0; rank < nodes; ++rank) {
        const auto other = partner(rank, nodes, turn);
        if (!other) {
          ++resting;
          continue;
        }
        CHECK(*other != rank);
        CHECK(partner(*other, nodes, turn) == rank);
        met.insert({std::min(rank, *other), std::max(rank, *other)});
      }
      CHECK(resting == nodes % 2);
    }
    if (nodes <= 4) CHECK(static_cast<int>(met.size()) == nodes * (nodes - 1) / 2);
  }
}

TEST_CASE("doctor: healthy links have no fault") {
  std::vector<Link> links = all_links();
  links.push_back(measured(0, 1, 900));
  for (const Finding& finding : judge_links(three_nodes(), links)) {
    INFO(finding.text);
    CHECK(finding.level == Level::ok);
  }
}

TEST_CASE("doctor: if only one direction fails, the remedy is the firewall") {
  std::vector<Link> links = all_links();
  links[5].error = "Connection timed out";
  const Finding found = only_bad(links);
  CHECK(found.level == Level::fail);
  CHECK(found.check == "connections");
  CHECK(found.text == "c does not reach b at 10.0.0.2 (Connection timed out), which reaches it");
  CHECK(contains(found.remedy, "firewall"));
}

TEST_CASE("doctor: if both directions fail, the remedy is the routes") {
  std::vector<Link> links = all_links();
  links[3].error = links[5].error = "Connection timed out";
  const Finding found = only_bad(links);
  CHECK_FALSE(contains(found.text, "which reaches it"));
  CHECK(contains(found.remedy, "routes"));
}

TEST_CASE("doctor: an interface that NCCL or Gloo would take fails if others do not reach it") {
  for (const std::string use : {"NCCL", "Gloo"}) {
    std::vector<Link> links = all_links();
    links.push_back(link(0, 1));
    links.back().use = use;
    links.back().address = "192.168.7.2";
    links.back().error = "Network is unreachable";
    const Finding found = only_bad(links);
    CHECK(found.level == Level::fail);
    CHECK(found.check == "interface");
    CHECK(contains(found.text, use + " on b would take 192.168.7.2"));
    CHECK(contains(found.remedy, use == "NCCL" ? "NCCL_SOCKET_IFNAME=eth0" : "GLOO_SOCKET_IFNAME"));
  }
}

TEST_CASE("doctor: among three clocks the wrong one is named, and among two both are") {
  std::vector<Link> links = all_links();
  links[2].clock_ahead = links[3].clock_ahead = -90;
  links[0].clock_ahead = links[5].clock_ahead = 90;
  const Finding found = only_bad(links);
  CHECK(found.level == Level::warn);
  CHECK(contains(found.text, "that of b is 90.0 s ahead"));
  CHECK_FALSE(contains(found.text, "that of a"));

  std::vector<Facts> two = three_nodes();
  two.pop_back();
  links = {link(0, 1), link(1, 0)};
  links[0].clock_ahead = 2;
  links[1].clock_ahead = -2;
  bool is_named = false;
  for (const Finding& each : judge_links(two, links)) {
    is_named = is_named || contains(each.text, "those of a and b differ by 2.0 s");
  }
  CHECK(is_named);
}

TEST_CASE("doctor: lost large packets are a failure, and a smaller MTU on the way is a warning") {
  std::vector<Link> links = all_links();
  links.push_back(measured(0, 1, 0.1));
  links.back().lost_large = true;
  Finding found = only_bad(links);
  CHECK(found.level == Level::fail);
  CHECK(contains(found.text, "large ones are lost: a to b (MTU 1500)"));

  links.back() = measured(0, 1, 900);
  links.back().path_mtu = 1400;
  found = only_bad(links);
  CHECK(found.level == Level::warn);
  CHECK(contains(found.text, "carries packets of 1400 bytes, the interfaces 1500"));
}

TEST_CASE("doctor: a link that is slower than its interfaces is a warning") {
  std::vector<Link> links = all_links();
  links.push_back(measured(0, 1, 100));
  const Finding found = only_bad(links);
  CHECK(found.level == Level::warn);
  CHECK(found.check == "bandwidth");
  CHECK(contains(found.text, "a to b carries 100"));
  CHECK(contains(found.text, "Mbit/s, the interfaces 1000"));
}

TEST_CASE("doctor: it predicts which interface NCCL takes") {
  const std::vector<Interface> all = {{"lo", "127.0.0.1", true},
                                      {"docker0", "172.17.0.1", false},
                                      {"eth0", "10.0.0.1", false},
                                      {"eth1", "10.1.0.1", false},
                                      {"ib0", "10.2.0.1", false}};
  const std::vector<std::pair<std::string, std::string>> told = {
      {"", "ib0"},       {"eth1", "eth1"},          {"eth", "eth0"},          {"=eth", ""},
      {"=eth1", "eth1"}, {"^ib,lo,docker", "eth0"}, {"^=lo,docker0", "eth0"}, {"foo,eth1", "eth1"}};
  for (const auto& [variable, name] : told) {
    INFO(variable);
    CHECK(nccl_interface(all, variable).name == name);
  }
  CHECK(nccl_interface({all.begin(), all.end() - 1}, "").name == "eth0");
  CHECK(nccl_interface({all.begin(), all.begin() + 2}, "").name == "docker0");
  CHECK(nccl_interface({all.begin(), all.begin() + 1}, "").name == "lo");
  CHECK(nccl_interface({}, "").name.empty());
  CHECK(interface_with(all, "10.1.0.1").name == "eth1");
  CHECK(interface_named(all, "ib0").address == "10.2.0.1");
}

TEST_CASE("doctor: encoded facts and orders are decoded again") {
  Facts facts = three_nodes()[1];
  facts.traits = {{"torch", "2.4.0"}};
  facts.folders = {{"/tmp/\xff", "", 5}};  // not UTF-8
  facts.cpus = 1.5;
  const auto back = decode_facts(encode(facts));
  REQUIRE(back);
  CHECK(back->way == "10.0.0.2");
  CHECK(back->traits == facts.traits);
  CHECK(back->cpus == 1.5);
  CHECK(back->folders.at(0).free == 5);
  Order order;
  order.program = "train.py";
  order.json = true;
  CHECK(decode_order(encode(order))->program == "train.py");
  CHECK(decode_order(encode(order))->json);
}

TEST_CASE("doctor: malformed facts and links are refused") {
  for (const char* text : {"", "[]", "{", R"({"host": 5})", R"({"folders": {}})", "null",
                           R"({"mtu": 1e300})", R"({"gpu_health": [{"links_up": -3e9}]})"}) {
    INFO(text);
    CHECK_FALSE(decode_facts(text));
  }
  CHECK_FALSE(decode_links(R"({"to": 1})", 0, 2));
}

TEST_CASE("doctor: only a node's own links to existing nodes are accepted from it") {
  const std::string text = encode({link(0, 1), link(1, 0), link(1, 5), link(1, -1), link(1, 1)});
  const auto links = decode_links(text, 1, 3);
  REQUIRE(links);
  REQUIRE(links->size() == 1);
  CHECK(links->at(0).to == 0);
}

TEST_CASE("doctor: the JSON report is ok unless there is a failure") {
  const std::vector<Facts> nodes = three_nodes();
  const std::string text = report_json({{Level::warn, "stack", "t", "r", {1}}}, nodes);
  CHECK(contains(text, "\"ok\": true"));
  CHECK(contains(text, "\"level\": \"warn\""));
  CHECK(contains(report_json({{Level::fail, "stack", "t", "r"}}, nodes), "\"ok\": false"));
}

TEST_CASE("doctor: the link that is slow while all nodes send is named") {
  auto links = all_links();
  for (const Link& link : {loaded(0, 1, 9'400), loaded(1, 2, 2'100), loaded(2, 0, 9'100)}) {
    links.push_back(link);
  }
  const Finding found = only_bad(links);
  CHECK(found.check == "ring");
  CHECK(found.text == "while all nodes send, b to c carries 2100 Mbit/s, most others 9100 or more");
  links[links.size() - 2].mbits_per_second = 8'000;
  const Findings well = judge_links(three_nodes(), links);
  CHECK(std::ranges::all_of(well, [](const Finding& f) { return f.level == Level::ok; }));
}
