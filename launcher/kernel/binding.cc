// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/binding.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/text.h"
#include "launcher/kernel/topology.h"

namespace ddprun::launcher {
namespace {

using Numbers = std::set<int>;
using Near = std::vector<std::vector<int>>;

/// The values of a member over these CPUs.
Numbers values(const Topology& cpus, int Cpu::* member) {
  Numbers numbers;
  for (const Cpu& cpu : cpus) numbers.insert(cpu.*member);
  return numbers;
}

/// The CPUs whose member has one of these values.
Topology select(const Topology& cpus, int Cpu::* member, const Numbers& wanted) {
  Topology selected;
  std::copy_if(cpus.begin(), cpus.end(), std::back_inserter(selected),
               [&](const Cpu& cpu) { return wanted.count(cpu.*member) != 0; });
  return selected;
}

/// Groups of CPUs with the same value, in the order of their first CPUs.
std::vector<Topology> group(const Topology& cpus, int Cpu::* member) {
  std::vector<Topology> groups;
  for (const Cpu& cpu : cpus) {
    const auto known = std::find_if(groups.begin(), groups.end(), [&](const Topology& one) {
      return one.front().*member == cpu.*member;
    });
    (known == groups.end() ? groups.emplace_back() : *known).push_back(cpu);
  }
  return groups;
}

/// Part `i` of these CPUs, whose cores are divided into `n` parts.
Topology part(const Topology& cpus, size_t i, size_t n) {
  const std::vector<Topology> cores = group(cpus, &Cpu::core);
  size_t begin = i * cores.size() / n;  // if there are fewer cores than parts
  size_t end = begin + 1;
  if (cores.size() >= n) {
    const size_t least = cores.size() / n;
    const size_t larger = cores.size() % n;
    begin = i * least + std::min(i, larger);
    end = begin + least + (i < larger ? 1 : 0);
  }
  Topology chosen;
  for (size_t core = begin; core < end; ++core) {
    chosen.insert(chosen.end(), cores[core].begin(), cores[core].end());
  }
  return chosen;
}

Error usage(std::string sentence) {
  return {Errc::usage, std::move(sentence)};
}

class Binder {
 public:
  Binder(NumaBinding how, const Topology& topology, const Near& near)
      : how_(how), topology_(topology), near_(near), all_nodes_(values(topology, &Cpu::node)) {
    located_ =
        std::any_of(near.begin(), near.end(), [](const auto& nodes) { return !nodes.empty(); });
  }

  Result<std::vector<Binding>> bind() {
    for (size_t worker = 0; worker < near_.size(); ++worker) {
      Result<Topology> share = share_of(worker);
      if (!share) return share.error();
      shares_.push_back(std::move(*share));
    }
    std::vector<Binding> bindings;
    for (size_t worker = 0; worker < near_.size(); ++worker) {
      const Topology cpus = cpus_of(worker);
      const Numbers numbers = values(cpus, &Cpu::number);
      const Numbers nodes = values(cpus, &Cpu::node);
      bindings.push_back({{numbers.begin(), numbers.end()}, {nodes.begin(), nodes.end()}});
    }
    return bindings;
  }

 private:
  /// The NUMA nodes closest to a worker that have CPUs we may use.
  Numbers nodes_near(size_t worker) const {
    if (near_[worker].empty()) return all_nodes_;
    Numbers nodes;
    for (const int node : near_[worker]) {
      if (all_nodes_.count(node) != 0) nodes.insert(node);
    }
    return nodes;
  }

  /// Part `i` of `n` of these CPUs; `where` ends an error message.
  Result<Topology> divide(const Topology& cpus, size_t i, size_t n,
                          const std::string& where) const {
    const size_t cores = values(cpus, &Cpu::core).size();
    if (how_ == NumaBinding::exclusive && cores < n) {
      return usage("needs a core for each worker, but " + count_text(n, "worker") + " have " +
                   count_text(cores, "core") + where);
    }
    return part(cpus, i, n);
  }

  Result<Topology> share_of(size_t worker) const {
    if (!located_) return divide(topology_, worker, near_.size(), "");
    const Numbers nodes = nodes_near(worker);
    if (nodes.empty()) {
      const Numbers allowed = values(topology_, &Cpu::number);
      return usage("the GPUs of local rank " + std::to_string(worker) + " are at NUMA node " +
                   list_text(near_[worker]) + ", but this process may only run on CPUs " +
                   list_text({allowed.begin(), allowed.end()}) + ", which are on other nodes");
    }
    Topology share;
    for (const int node : nodes) {
      Result<Topology> some = share_of_node(worker, node);
      if (!some) return some;
      share.insert(share.end(), some->begin(), some->end());
    }
    return share;
  }

  Result<Topology> share_of_node(size_t worker, int node) const {
    size_t before = 0, all = 0;
    for (size_t other = 0; other < near_.size(); ++other) {
      if (nodes_near(other).count(node) == 0) continue;
      if (other < worker) ++before;
      ++all;
    }
    return divide(select(topology_, &Cpu::node, {node}), before, all,
                  " on NUMA node " + std::to_string(node));
  }

  Topology cpus_of(size_t worker) const {
    const Topology& share = shares_[worker];
    switch (how_) {
      case NumaBinding::node:
        return select(topology_, &Cpu::node, values(share, &Cpu::node));
      case NumaBinding::socket:
        return select(topology_, &Cpu::socket, values(share, &Cpu::socket));
      case NumaBinding::core_complex:
        return complex_of(worker);
      case NumaBinding::exclusive:
        break;
    }
    return share;
  }

  /// The workers of the same nodes get their core complexes in turn, the largest ones first.
  Topology complex_of(size_t worker) const {
    const Numbers home = values(shares_[worker], &Cpu::node);
    const auto before =
        std::count_if(shares_.begin(), shares_.begin() + static_cast<std::ptrdiff_t>(worker),
                      [&](const Topology& share) { return values(share, &Cpu::node) == home; });
    std::vector<Topology> complexes = group(select(topology_, &Cpu::node, home), &Cpu::complex);
    std::stable_sort(complexes.begin(), complexes.end(),
                     [](const Topology& a, const Topology& b) { return a.size() > b.size(); });
    return complexes[static_cast<size_t>(before) % complexes.size()];
  }

  NumaBinding how_;
  const Topology& topology_;
  const Near& near_;
  Numbers all_nodes_;
  bool located_ = false;  // the NUMA node of some GPU is known
  std::vector<Topology> shares_;
};

}  // namespace

Result<std::vector<Binding>> bind_workers(NumaBinding how, const Topology& topology,
                                          const std::vector<std::vector<int>>& near) {
  if (topology.empty()) return usage("hwloc found none of the CPUs this process may run on");
  return Binder(how, topology, near).bind();
}

}  // namespace ddprun::launcher
