// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/pairs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "cli/doctor/compare.h"
#include "cli/doctor/judge_node.h"

namespace ddprun::doctor {
namespace {

constexpr int kAllPairs = 32;      // with more nodes, not every pair is tried
constexpr int kMostTurns = 3;      // of bandwidth
constexpr double kClockLimit = 1;  // s
/// The share of the interface's speed below which a link is slow. One connection does not fill a
/// fast interface.
constexpr double kSlowShare = 0.25;
constexpr double kNeverSlow = 5'000;  // Mbit/s
constexpr double kSlowInRing = 0.5;   // compared with the middle link
constexpr size_t kMostPairs = 8;      // named in a finding

std::vector<int> peers_of(int rank, int nodes) {
  std::vector<int> peers;
  for (int step = 1; step < nodes; step = nodes <= kAllPairs ? step + 1 : step * 2) {
    peers.push_back((rank + step) % nodes);
  }
  return peers;
}

void add(std::vector<Target>& targets, Target target) {
  for (Target& known : targets) {
    if (known.node != target.node || known.address != target.address) continue;
    known.use += " and " + target.use;
    return;
  }
  targets.push_back(std::move(target));
}

std::string seconds_text(double seconds) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.1f s", seconds);
  return text.data();
}

std::string number_text(double number) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), number < 10 ? "%.2g" : "%.0f", number);
  return text.data();
}

/// The nodes' facts and names.
struct World {
  const std::vector<Facts>& nodes;
  std::vector<std::string> names;

  const Facts& facts(int node) const { return nodes.at(static_cast<size_t>(node)); }
  const std::string& name(int node) const { return names.at(static_cast<size_t>(node)); }
};

/// The sentences of many pairs in one finding.
class Sentences {
 public:
  void add(const std::string& sentence) {
    if (++count_ <= kMostPairs) text_ += (text_.empty() ? "" : "; ") + sentence;
  }
  bool empty() const { return count_ == 0; }
  std::string text() const {
    return count_ <= kMostPairs ? text_
                                : text_ + "; and " + std::to_string(count_ - kMostPairs) + " more";
  }

 private:
  size_t count_ = 0;
  std::string text_;
};

bool is_ways(const Link& link) {
  return link.use.starts_with("ddprun");
}

bool connects(const std::vector<Link>& links, int from, int to) {
  return std::ranges::any_of(links, [&](const Link& link) {
    return link.from == from && link.to == to && is_ways(link) && link.error.empty();
  });
}

Findings judge_ways(const World& world, const std::vector<Link>& links) {
  Sentences failed;
  bool has_return_way = false;
  for (const Link& link : links) {
    if (link.error.empty() || !is_ways(link)) continue;
    const bool one_way = connects(links, link.to, link.from);
    has_return_way = has_return_way || one_way;
    failed.add(world.name(link.from) + " does not reach " + world.name(link.to) + " at " +
               link.address + " (" + link.error + ")" + (one_way ? ", which reaches it" : ""));
  }
  if (failed.empty()) return {};
  return {{Level::fail, "connections", failed.text(),
           has_return_way
               ? "open all ports above 1023 between the nodes in both directions (firewall, "
                 "security group)"
               : "check routes (ip route get ADDRESS) on both nodes, and open all ports above 1023 "
                 "between them (firewall, security group)"}};
}

/// Findings about addresses that a library would choose, but other nodes cannot reach.
Findings judge_choices(const World& world, const std::vector<Link>& links) {
  std::map<std::pair<int, std::string>, const Link*> unreached;
  for (const Link& link : links) {
    if (!link.error.empty() && !is_ways(link)) unreached.try_emplace({link.to, link.use}, &link);
  }
  Findings findings;
  for (const auto& [choice, link] : unreached) {
    const Facts& node = world.facts(link->to);
    const bool is_nccl = link->use.ends_with("NCCL");
    const std::string chosen =
        link->address + (is_nccl ? " (" + node.nccl_interface + ")" : std::string());
    const std::string variable = is_nccl ? "NCCL_SOCKET_IFNAME=" : "GLOO_SOCKET_IFNAME=";
    findings.push_back(
        {Level::fail, "interface",
         link->use + " on " + world.name(link->to) + " would take " + chosen + ", which " +
             world.name(link->from) + " does not reach (" + link->error + ")",
         variable + (node.interface.empty() ? "INTERFACE" : node.interface) +
             (link->use == "Gloo and NCCL" ? ", and the same for GLOO_SOCKET_IFNAME" : "")});
  }
  return findings;
}

Findings judge_round_trips(const std::vector<Link>& links) {
  double least = HUGE_VAL;
  double most = 0;
  size_t count = 0;
  for (const Link& link : links) {
    if (!link.error.empty() || link.is_measured) continue;
    ++count;
    least = std::min(least, link.round_trip);
    most = std::max(most, link.round_trip);
  }
  if (count == 0) return {};
  return {{Level::ok, "connections",
           std::to_string(count) + " made, with round trips of " + number_text(least) + " to " +
               number_text(most) + " ms",
           ""}};
}

/// How far each node's clock is ahead of the clocks that it has met: the middle difference. So the
/// odd one of three clocks is found. If there are only two, either may be wrong.
std::vector<double> clocks_ahead(size_t nodes, const std::vector<Link>& links) {
  std::vector<std::vector<double>> met(nodes);
  for (const Link& link : links) {
    if (!link.error.empty() || link.under_load) continue;
    met.at(static_cast<size_t>(link.to)).push_back(link.clock_ahead);
    met.at(static_cast<size_t>(link.from)).push_back(-link.clock_ahead);
  }
  std::vector<double> ahead;
  for (std::vector<double>& offsets : met) {
    std::ranges::sort(offsets, {}, [](double offset) { return std::abs(offset); });
    ahead.push_back(offsets.empty() ? 0 : offsets[(offsets.size() - 1) / 2]);
  }
  return ahead;
}

Findings judge_clocks(const World& world, const std::vector<Link>& links) {
  Sentences wrong;
  const std::vector<double> ahead = clocks_ahead(world.nodes.size(), links);
  if (ahead.size() == 2 && std::abs(ahead[0]) > kClockLimit) {
    wrong.add("those of " + world.name(0) + " and " + world.name(1) + " differ by " +
              seconds_text(std::abs(ahead[0])));
  } else {
    for (size_t node = 0; node < ahead.size(); ++node) {
      if (std::abs(ahead[node]) <= kClockLimit) continue;
      wrong.add("that of " + world.names[node] + " is " + seconds_text(std::abs(ahead[node])) +
                (ahead[node] > 0 ? " ahead" : " behind"));
    }
  }
  if (wrong.empty()) return {{Level::ok, "clocks", "they differ by less than a second", ""}};
  return {{Level::warn, "clocks", wrong.text() + ": times in logs of several nodes mislead",
           "set them by NTP: timedatectl set-ntp true, or chronyc makestep"}};
}

std::string pair_text(const World& world, const Link& link) {
  return world.name(link.from) + " to " + world.name(link.to);
}

/// The least of both ends' values; -1: unknown.
int least_of(int one, int other) {
  return one < 0 || other < 0 ? -1 : std::min(one, other);
}

Findings judge_packets(const World& world, const std::vector<Link>& links) {
  Sentences lost;
  Sentences small;
  for (const Link& link : links) {
    const int mtu = least_of(world.facts(link.from).mtu, world.facts(link.to).mtu);
    if (link.under_load) continue;
    if (link.lost_large) {
      lost.add(pair_text(world, link) +
               (mtu > 0 ? " (MTU " + std::to_string(mtu) + ")" : std::string()));
    } else if (link.is_measured && link.path_mtu > 0 && link.path_mtu < mtu) {
      small.add(pair_text(world, link) + " carries packets of " + std::to_string(link.path_mtu) +
                " bytes, the interfaces " + std::to_string(mtu));
    }
  }
  Findings findings;
  if (!lost.empty()) {
    findings.push_back({Level::fail, "packets",
                        "small ones arrive, large ones are lost: " + lost.text(),
                        "a lower MTU on the nodes, as on the way between them: ip link set dev "
                        "INTERFACE mtu 1500"});
  }
  if (!small.empty()) {
    findings.push_back({Level::warn, "packets", small.text(),
                        "give the switches between the nodes the same MTU as the nodes"});
  }
  return findings;
}

Findings judge_bandwidth(const World& world, const std::vector<Link>& links) {
  Sentences slow;
  double least = HUGE_VAL;
  double most = 0;
  for (const Link& link : links) {
    if (!link.is_measured || link.lost_large || link.under_load) continue;
    least = std::min(least, link.mbits_per_second);
    most = std::max(most, link.mbits_per_second);
    const int speed = least_of(world.facts(link.from).speed, world.facts(link.to).speed);
    if (speed < 0 || link.mbits_per_second >= std::min(speed * kSlowShare, kNeverSlow)) continue;
    slow.add(pair_text(world, link) + " carries " + number_text(link.mbits_per_second) +
             " Mbit/s, the interfaces " + std::to_string(speed));
  }
  if (most == 0) return {};
  if (slow.empty()) {
    return {{Level::ok, "bandwidth",
             (least < most ? number_text(least) + " to " : "") + number_text(most) +
                 " Mbit/s with one connection",
             ""}};
  }
  return {{Level::warn, "bandwidth", slow.text(),
           "another job may use the network; else a bad cable or port (ethtool -S INTERFACE)"}};
}

/// Names links that are much slower than the middle one: the slowest link sets the pace of a ring.
Findings judge_load(const World& world, const std::vector<Link>& links) {
  std::vector<Link> ring;
  for (const Link& link : links) {
    if (link.under_load) ring.push_back(link);
  }
  if (ring.empty()) return {};
  std::ranges::sort(ring, {}, &Link::mbits_per_second);
  const double middle = ring[ring.size() / 2].mbits_per_second;
  Sentences slow;
  for (const Link& link : ring) {
    if (link.mbits_per_second >= middle * kSlowInRing) break;
    slow.add(pair_text(world, link) + " carries " + number_text(link.mbits_per_second) + " Mbit/s");
  }
  if (slow.empty()) {
    return {{Level::ok, "ring",
             "each node sends " + number_text(ring.front().mbits_per_second) + " to " +
                 number_text(ring.back().mbits_per_second) + " Mbit/s to the next one at once",
             ""}};
  }
  return {
      {Level::warn, "ring",
       "while all nodes send, " + slow.text() + ", most others " + number_text(middle) + " or more",
       "all_reduce is as fast as that: look at the ports and cables between these nodes, or "
       "leave one of them out"}};
}

}  // namespace

std::vector<Target> targets(int rank, const std::vector<Facts>& nodes, const std::string& master) {
  std::vector<Target> targets;
  for (const int peer : peers_of(rank, static_cast<int>(nodes.size()))) {
    const Facts& facts = nodes.at(static_cast<size_t>(peer));
    if (!facts.missing.empty()) continue;
    add(targets, {peer, "ddprun", facts.way.empty() ? master : facts.way});
    for (const auto& [use, address] :
         {std::pair("Gloo", facts.gloo_address), std::pair("NCCL", facts.nccl_address)}) {
      // A loopback address is not tried: this host itself would answer.
      if (!address.empty() && !is_loopback_address(address)) add(targets, {peer, use, address});
    }
  }
  return targets;
}

int turns(int nodes) {
  return std::min(nodes + nodes % 2 - 1, kMostTurns);
}

std::optional<int> partner(int rank, int nodes, int turn) {
  // A tournament: one node stays, the others go around. If the number of nodes is odd, the node
  // that meets the missing one rests.
  const int others = nodes + nodes % 2 - 1;
  const int stays = others;
  if (rank == stays) {
    int other = turn % others;
    while ((2 * other) % others != turn % others) other = (other + 1) % others;
    return other;
  }
  const int other = ((turn - rank) % others + others) % others;
  if (other != rank) return other;
  return stays < nodes ? std::optional(stays) : std::nullopt;
}

Findings judge_links(const std::vector<Facts>& nodes, const std::vector<Link>& links) {
  const World world{nodes, node_names(nodes)};
  Findings all = judge_round_trips(links);
  for (const Findings& findings :
       {judge_ways(world, links), judge_choices(world, links), judge_packets(world, links),
        judge_bandwidth(world, links), judge_load(world, links), judge_clocks(world, links)}) {
    all.insert(all.end(), findings.begin(), findings.end());
  }
  return all;
}

}  // namespace ddprun::doctor
