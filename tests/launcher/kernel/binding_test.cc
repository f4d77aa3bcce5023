// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/binding.h"

#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "base/text.h"
#include "launcher/kernel/topology.h"
#include "tests/catch.h"
#include "tests/must.h"

using namespace ddprun;
using namespace ddprun::launcher;
using Strings = std::vector<std::string>;
using Near = std::vector<std::vector<int>>;

namespace {

constexpr int kNoGpu = -1;

std::vector<int> numbers(int first, int last) {
  std::vector<int> all(static_cast<size_t>(last - first + 1));
  std::iota(all.begin(), all.end(), first);
  return all;
}

/// A machine that hwloc describes: https://www.open-mpi.org/projects/hwloc, Synthetic topologies.
Topology machine(const char* description, const std::vector<int>& allowed = numbers(0, 255)) {
  setenv("HWLOC_SYNTHETIC", description, 1);
  Topology topology = must(discover_topology(allowed));
  unsetenv("HWLOC_SYNTHETIC");
  return topology;
}

/// 2 sockets, 4 NUMA nodes, 32 cores, 64 CPUs; each node has two caches of 4 cores. CPU n + 32 is
/// the second thread of CPU n's core, as Linux counts.
Topology two_sockets(const std::vector<int>& allowed = numbers(0, 255)) {
  return machine("pack:2 numa:2 l3:2 core:4 pu:2(indexes=2*32:32*1)", allowed);
}

/// Workers with one GPU each, at these NUMA nodes.
Near at(const std::vector<int>& nodes) {
  Near near;
  for (const int node : nodes) {
    near.push_back(node == kNoGpu ? std::vector<int>() : std::vector<int>{node});
  }
  return near;
}

Near no_gpus(size_t workers) {
  return Near(workers);
}

/// Each worker's CPUs and, after a colon, NUMA nodes.
Strings bound(NumaBinding how, const Topology& topology, const Near& near) {
  Strings texts;
  for (const Binding& binding : must(bind_workers(how, topology, near))) {
    texts.push_back(list_text(binding.cpus) + ":" + list_text(binding.nodes));
  }
  return texts;
}

std::string refused(NumaBinding how, const Topology& topology, const Near& near) {
  const auto bindings = bind_workers(how, topology, near);
  if (bindings) FAIL("was not refused");
  CHECK(bindings.error().code == Errc::usage);
  return bindings.error().message;
}

}  // namespace

TEST_CASE("a set of CPUs is written in the kernel's format") {
  CHECK(list_text({}).empty());
  CHECK(list_text({7}) == "7");
  CHECK(list_text({0, 1, 2, 5, 8, 9}) == "0-2,5,8-9");
  CHECK(affinity_mask({0, 3, 64}) == std::vector<unsigned long>{9, 1});
}

TEST_CASE("a machine is read from hwloc, without the CPUs we may not use") {
  const Topology all = two_sockets();
  REQUIRE(all.size() == 64);
  const Cpu& first = all[0];
  const Cpu& sibling = all[1];
  const Cpu& next = all[2];
  const Cpu& last = all[63];
  CHECK(first.number == 0);
  CHECK(sibling.number == 32);
  CHECK(sibling.core == first.core);
  CHECK(next.core != first.core);
  CHECK(next.complex == first.complex);
  CHECK(last.number == 63);
  CHECK(last.node == 3);
  CHECK(last.socket != first.socket);

  CHECK(two_sockets({5, 40}).size() == 2);
  CHECK(machine("core:2 pu:1").front().node == 0);
}

TEST_CASE("a worker gets the CPUs closest to its GPU") {
  const Topology cpus = two_sockets();
  const Near gpus = at({0, 0, 1, 1, 2, 2, 3, 3});

  CHECK(bound(NumaBinding::node, cpus, gpus) ==
        Strings{"0-7,32-39:0", "0-7,32-39:0", "8-15,40-47:1", "8-15,40-47:1", "16-23,48-55:2",
                "16-23,48-55:2", "24-31,56-63:3", "24-31,56-63:3"});
  CHECK(bound(NumaBinding::socket, cpus, gpus) ==
        Strings{"0-15,32-47:0-1", "0-15,32-47:0-1", "0-15,32-47:0-1", "0-15,32-47:0-1",
                "16-31,48-63:2-3", "16-31,48-63:2-3", "16-31,48-63:2-3", "16-31,48-63:2-3"});
  CHECK(bound(NumaBinding::exclusive, cpus, gpus) ==
        Strings{"0-3,32-35:0", "4-7,36-39:0", "8-11,40-43:1", "12-15,44-47:1", "16-19,48-51:2",
                "20-23,52-55:2", "24-27,56-59:3", "28-31,60-63:3"});
  CHECK(bound(NumaBinding::core_complex, cpus, gpus) == bound(NumaBinding::exclusive, cpus, gpus));
}

TEST_CASE("cores that cannot be divided evenly go to the first workers of a node") {
  CHECK(bound(NumaBinding::exclusive, two_sockets(), at({1, 0, 1, 1})) ==
        Strings{"8-10,40-42:1", "0-7,32-39:0", "11-13,43-45:1", "14-15,46-47:1"});
}

TEST_CASE("workers of one node take its core complexes in turn, the largest first") {
  const Topology cpus = two_sockets(numbers(2, 63));  // two cores of the first complex have one CPU
  CHECK(bound(NumaBinding::core_complex, cpus, at({0, 0, 0, 3})) ==
        Strings{"4-7,36-39:0", "2-3,32-35:0", "4-7,36-39:0", "24-27,56-59:3"});
}

TEST_CASE("a worker with GPUs at several nodes gets CPUs of all of them") {
  const Near gpus = {{0, 1}, {1}};
  CHECK(bound(NumaBinding::node, two_sockets(), gpus) == Strings{"0-15,32-47:0-1", "8-15,40-47:1"});
  CHECK(bound(NumaBinding::exclusive, two_sockets(), gpus) ==
        Strings{"0-11,32-43:0-1", "12-15,44-47:1"});
}

TEST_CASE("without GPUs workers divide the cores in order") {
  const Topology cpus = two_sockets();
  CHECK(bound(NumaBinding::exclusive, cpus, no_gpus(4)) ==
        Strings{"0-7,32-39:0", "8-15,40-47:1", "16-23,48-55:2", "24-31,56-63:3"});
  CHECK(bound(NumaBinding::node, cpus, no_gpus(4)) ==
        bound(NumaBinding::exclusive, cpus, no_gpus(4)));
  CHECK(bound(NumaBinding::node, cpus, no_gpus(2)) == Strings{"0-15,32-47:0-1", "16-31,48-63:2-3"});
  CHECK(bound(NumaBinding::socket, cpus, no_gpus(4)) ==
        Strings{"0-15,32-47:0-1", "0-15,32-47:0-1", "16-31,48-63:2-3", "16-31,48-63:2-3"});
  CHECK(bound(NumaBinding::core_complex, cpus, no_gpus(8)) ==
        Strings{"0-3,32-35:0", "4-7,36-39:0", "8-11,40-43:1", "12-15,44-47:1", "16-19,48-51:2",
                "20-23,52-55:2", "24-27,56-59:3", "28-31,60-63:3"});
  CHECK(bound(NumaBinding::exclusive, cpus, no_gpus(3)) ==
        Strings{"0-10,32-42:0-1", "11-21,43-53:1-2", "22-31,54-63:2-3"});
}

TEST_CASE("a GPU whose node the kernel does not know is close to all nodes") {
  CHECK(bound(NumaBinding::node, machine("numa:2 core:2 pu:1"), at({1, kNoGpu})) ==
        Strings{"2-3:1", "0-3:0-1"});
}

TEST_CASE("no worker is bound to CPUs this process may not use") {
  const Topology container = two_sockets({0, 1, 9, 32, 41});
  CHECK(bound(NumaBinding::node, container, at({0, 1})) == Strings{"0-1,32:0", "9,41:1"});
  CHECK(bound(NumaBinding::exclusive, container, no_gpus(3)) == Strings{"0,32:0", "1:0", "9,41:1"});
  CHECK(refused(NumaBinding::node, container, at({0, 3})) ==
        "the GPUs of local rank 1 are at NUMA node 3, but this process may only run on CPUs "
        "0-1,9,32,41, which are on other nodes");
}

TEST_CASE("workers share cores if there are too few, except with exclusive") {
  const Topology cpus = machine("numa:2 core:2 pu:1");
  CHECK(bound(NumaBinding::node, cpus, no_gpus(8)) ==
        Strings{"0-1:0", "0-1:0", "0-1:0", "0-1:0", "2-3:1", "2-3:1", "2-3:1", "2-3:1"});
  CHECK(bound(NumaBinding::node, cpus, at({1, 1, 1})) == Strings{"2-3:1", "2-3:1", "2-3:1"});
  CHECK(refused(NumaBinding::exclusive, cpus, no_gpus(5)) ==
        "needs a core for each worker, but 5 workers have 4 cores");
  CHECK(refused(NumaBinding::exclusive, cpus, at({0, 1, 1, 1})) ==
        "needs a core for each worker, but 3 workers have 2 cores on NUMA node 1");
}

TEST_CASE("the error about a missing hwloc names the package to install") {
  const auto missing = discover_topology({0}, "libno-such-hwloc.so.15");
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().message ==
        "needs the library libno-such-hwloc.so.15, which is not installed: install libhwloc15 "
        "(Debian, "
        "Ubuntu) or hwloc-libs (Fedora, RHEL)");
  const auto other = discover_topology({0}, "libm.so.6");
  REQUIRE_FALSE(other.has_value());
  CHECK(other.error().message == "libm.so.6 is not version 2 of hwloc");
}
