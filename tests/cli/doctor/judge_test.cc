// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/doctor/compare.h"
#include "cli/doctor/judge_node.h"
#include "cli/doctor/report.h"
#include "tests/catch.h"
#include "tests/contains.h"

using namespace ddprun;
using namespace ddprun::doctor;
using tests::contains;

namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

/// A node without fault.
Facts healthy(const std::string& host = "gpu-01") {
  Facts facts;
  facts.host = host;
  facts.traits = {{"ddprun", "1.0"}, {"torch", "2.4.0"}};
  facts.way = facts.gloo_address = facts.name_address = facts.nccl_address = "10.0.0.1";
  facts.interface = facts.nccl_interface = "eth0";
  facts.mtu = 1500;
  facts.shared_memory = 8 * kGiB;
  facts.open_files = 4096;
  facts.stack = 8 << 20;
  facts.folders = {{"/tmp", "", 100 * kGiB}};
  return facts;
}

/// A fault, and the finding that is expected for it.
struct Case {
  std::string check;
  Level level;
  std::string text;
  std::string remedy;
  std::function<void(Facts&)> fault;
};

const std::vector<Case> kCases = {
    {"program", Level::fail, "cannot run train.py", "on every node, at the same path",
     [](Facts& f) { f.problem = "cannot run train.py: no such file"; }},
    {"workers", Level::fail, "--nproc_per_node gpu needs a GPU", "nvidia-smi -L",
     [](Facts& f) { f.workers_problem = "--nproc_per_node gpu needs a GPU, and has none"; }},
    {"shared memory", Level::fail, "/dev/shm has 64 MiB free", "--shm-size",
     [](Facts& f) { f.shared_memory = 64 << 20; }},
    {"shared memory", Level::fail, "there is no /dev/shm", "--shm-size",
     [](Facts& f) { f.shared_memory = -1; }},
    {"shared memory", Level::warn, "/dev/shm has 512 MiB free", "--shm-size",
     [](Facts& f) { f.shared_memory = 512 << 20; }},
    {"open files", Level::fail, "a process may have 100 open", "ulimit -n",
     [](Facts& f) { f.open_files = 100; }},
    {"open files", Level::warn, "a process may have 1000 open", "ulimit -n",
     [](Facts& f) { f.open_files = 1000; }},
    {"locked memory", Level::fail, "at most 64 KiB may be locked", "ulimit -l unlimited",
     [](Facts& f) { f.has_fabric = true, f.locked_memory = 64 << 10; }},
    {"stack", Level::warn, "unlimited", "ulimit -s 8192", [](Facts& f) { f.stack = -1; }},
    {"memory", Level::warn, "the control group has 1.5 GiB for 2 workers", "sbatch --mem",
     [](Facts& f) { f.memory = 3 * kGiB / 2, f.workers = 2; }},
    {"CPUs", Level::warn, "the control group has 1.5 for 2 workers", "--cpus-per-task",
     [](Facts& f) { f.cpus = 1.5, f.workers = 2; }},
    {"GPUs", Level::warn, "1 GPU for 2 workers", "--nproc_per_node gpu",
     [](Facts& f) { f.gpus = 1, f.workers = 2; }},
    {"GPUs", Level::fail, "the driver's module and NVML are of different versions", "reboot",
     [](Facts& f) { f.driver_differs = true; }},
    {"GPUs", Level::fail, "GPU 1: lost", "reboot",
     [](Facts& f) { f.gpu_health.resize(3), f.gpu_health[1].is_lost = true; }},
    {"GPUs", Level::fail, "GPU 0: faulty memory cannot be remapped", "replaced",
     [](Facts& f) { f.gpu_health.resize(3), f.gpu_health[0].is_worn_out = true; }},
    {"GPUs", Level::warn, "GPU 2: faulty memory is remapped at the next reset", "nvidia-smi -r",
     [](Facts& f) { f.gpu_health.resize(3), f.gpu_health[2].needs_reset = true; }},
    {"GPUs", Level::warn, "GPU 0: uncorrected memory errors", "nvidia-smi",
     [](Facts& f) { f.gpu_health.resize(3), f.gpu_health[0].uncorrected_errors = 1; }},
    {"GPUs", Level::warn, "GPU 1: other processes hold memory", "nvidia-smi",
     [](Facts& f) { f.gpu_health.resize(3), f.gpu_health[1].memory_used = 0.5; }},
    {"GPUs", Level::warn, "GPU 1: its clocks are lowered", "cooling",
     [](Facts& f) { f.gpu_health.resize(3), f.gpu_health[1].slowed = "too hot"; }},
    {"GPUs", Level::warn, "GPU 2: links of NVLink are down", "nvlink",
     [](Facts& f) { f.gpu_health.resize(3, {.links_up = 4}), f.gpu_health[2].links_down = 1; }},
    {"GPUs", Level::warn, "since the boot has GPU 0000:3b:00: Xid 79", "nvidia-smi -r",
     [](Facts& f) { f.gpu_errors = {"0000:3b:00: Xid 79"}; }},
    {"InfiniBand", Level::warn, "not active: mlx5_0/1 (DOWN)", "ibstat",
     [](Facts& f) { f.has_fabric = true, f.inactive_ports = {"mlx5_0/1 (DOWN)"}; }},
    {"host name", Level::fail, "stands for 127.0.1.1", "GLOO_SOCKET_IFNAME=eth0",
     [](Facts& f) { f.gloo_address = f.name_address = "127.0.1.1"; }},
    {"host name", Level::fail, "is unknown to the resolver", "/etc/hosts",
     [](Facts& f) { f.gloo_address = f.name_address = ""; }},
    {"host name", Level::fail, "stands for 10.9.9.9, which is no address of this host",
     "/etc/hosts", [](Facts& f) { f.name_address = "10.9.9.9", f.gloo_address = ""; }},
    {"interface", Level::fail, "NCCL_SOCKET_IFNAME=eth7: no interface of this name", "ip addr",
     [](Facts& f) { f.no_interface = {"NCCL_SOCKET_IFNAME=eth7"}; }},
    {"diagnosis", Level::warn, "ptrace_scope is 2", "sysctl", [](Facts& f) { f.ptrace_scope = 2; }},
    {"disk", Level::fail, "/logs cannot be written: No space left", "--log_dir",
     [](Facts& f) { f.folders.push_back({"/logs", "No space left", 0}); }},
    {"disk", Level::warn, "/logs has 5 MiB free", "--log_dir",
     [](Facts& f) { f.folders.push_back({"/logs", "", 5 << 20}); }},
    {"node", Level::fail, "no report from this node", "look at this node",
     [](Facts& f) { f.missing = "no report from this node for 60 s"; }},
};

Findings bad(Findings findings) {
  std::erase_if(findings, [](const Finding& f) { return f.level == Level::ok; });
  return findings;
}

}  // namespace

TEST_CASE("doctor: a healthy node has no fault") {
  Facts facts = healthy();
  CHECK(bad(judge_node(facts, 1)).empty());
  CHECK(bad(judge_node(facts, 2)).empty());
  facts.has_fabric = true;  // without a limit of locked memory
  facts.gpus = facts.workers = 8;
  facts.memory = 64 * kGiB;
  facts.cpus = 8;
  CHECK(bad(judge_node(facts, 2)).empty());
}

TEST_CASE("doctor: each fault of a node yields one finding, with its remedy") {
  for (const Case& each : kCases) {
    INFO(each.check << ": " << each.text);
    Facts facts = healthy();
    each.fault(facts);
    const Findings found = bad(judge_node(facts, 2));
    REQUIRE(found.size() == 1);
    CHECK(found[0].check == each.check);
    CHECK(found[0].level == each.level);
    CHECK(contains(found[0].text, each.text));
    CHECK(contains(found[0].remedy, each.remedy));
  }
}

TEST_CASE("doctor: a loopback name is no fault on one host, or if Gloo's interface is set") {
  Facts facts = healthy();
  facts.gloo_address = facts.name_address = "127.0.1.1";
  CHECK(bad(judge_node(facts, 1)).empty());
  CHECK(bad(judge_nodes({facts, facts})).empty());  // two nodes of one host
  Facts other = facts;
  other.host = "gpu-02";
  CHECK(bad(judge_nodes({facts, other})).size() == 1);
  facts.gloo_is_set = true;
  CHECK(bad(judge_node(facts, 2)).empty());
}

TEST_CASE("doctor: equal findings of several nodes are reported as one") {
  std::vector<Facts> nodes = {healthy("a"), healthy("b"), healthy("c")};
  nodes[0].open_files = nodes[2].open_files = 100;
  nodes[0].shared_memory = 9 * kGiB;
  const Findings all = judge_nodes(nodes);
  const Findings found = bad(all);
  REQUIRE(found.size() == 1);
  CHECK(found[0].nodes == std::vector<int>{0, 2});
  CHECK(contains(report_text(all, nodes), "FAIL  open files (a, c): a process may have 100"));
  CHECK(contains(report_text(all, nodes), "ok    shared memory\n"));
}

TEST_CASE("doctor: values that differ between nodes are named, the most frequent value first") {
  const std::vector<std::pair<std::string, Level>> traits = {
      {"ddprun", Level::fail}, {"program", Level::fail}, {"Python", Level::fail},
      {"torch", Level::fail},  {"jaxlib", Level::fail},  {"NCCL", Level::fail},
      {"driver", Level::warn}, {"GPUs", Level::warn},    {"MTU", Level::warn}};
  for (const auto& [trait, level] : traits) {
    INFO(trait);
    std::vector<Facts> nodes = {healthy("a"), healthy("b"), healthy("c")};
    for (Facts& node : nodes) node.traits[trait] = "2";
    CHECK(bad(compare(nodes)).empty());
    nodes[0].traits[trait] = "1";
    const Findings found = bad(compare(nodes));
    REQUIRE(found.size() == 1);
    CHECK(found[0].check == trait);
    CHECK(found[0].level == level);
    CHECK(found[0].text == "2 on b, c; 1 on a");
    CHECK_FALSE(found[0].remedy.empty());
  }
}

TEST_CASE("doctor: a variable that one node lacks is named") {
  std::vector<Facts> nodes = {healthy("a"), healthy("b")};
  nodes[1].variables["NCCL_IB_DISABLE"] = "1";
  const Findings found = bad(compare(nodes));
  REQUIRE(found.size() == 1);
  CHECK(found[0].check == "NCCL_IB_DISABLE");
  CHECK(found[0].level == Level::warn);
  CHECK(found[0].text == "1 on b; none on a");
}

TEST_CASE("doctor: what imports would take on the slowest node is reported once, with --preload") {
  std::vector<Facts> nodes = {healthy("a"), healthy("b"), healthy("c")};
  for (Facts& node : nodes) {
    node.workers = 8;
    node.imports = "jax,torch";
  }
  CHECK(bad(compare(nodes)).empty());  // it takes no time
  nodes[0].import_seconds = 3;
  nodes[1].import_seconds = 4;
  const Findings found = bad(compare(nodes));
  REQUIRE(found.size() == 1);
  CHECK(found[0].check == "imports");
  CHECK(found[0].level == Level::warn);
  CHECK(found[0].text == "each of 8 workers of a node would import jax,torch for more than 4 s");
  CHECK(found[0].remedy == "--preload jax,torch imports it once on each node");
  nodes[1].imports.clear();
  nodes[1].import_seconds = 0;
  CHECK(contains(bad(compare(nodes)).at(0).text, "for more than 3 s"));
}

TEST_CASE("doctor: a program that uses gloo gets the hint once") {
  std::vector<Facts> nodes = {healthy("a"), healthy("b")};
  for (Facts& node : nodes) node.gloo_line = "12";
  const Findings found = bad(compare(nodes));
  REQUIRE(found.size() == 1);
  CHECK(found[0].level == Level::warn);
  CHECK(found[0].text == "line 12 of the program makes a group of gloo");
  CHECK(contains(found[0].remedy, "init_process_group(\"ddp\")"));
}

TEST_CASE("doctor: nodes without a report are not compared") {
  std::vector<Facts> nodes = {healthy("a"), healthy("b")};
  nodes[1].missing = "it has told nothing";
  nodes[1].traits.clear();
  CHECK(bad(compare(nodes)).empty());
}

TEST_CASE("doctor: nodes of one host have different names, and a long list is shortened") {
  const std::vector<Facts> nodes(9, healthy("a"));
  const std::vector<std::string> names = node_names(nodes);
  CHECK(names[1] == "a (node 1)");
  CHECK(list_nodes({0, 1, 2, 3, 4, 5, 6, 7}, names) ==
        "a (node 0), a (node 1), a (node 2), a (node 3), a (node 4), a (node 5) and 2 more");
}

TEST_CASE("doctor: the report has failures first, counts, and shows no control characters") {
  std::vector<Facts> nodes = {healthy("a\x1b[2J"), healthy("b")};
  nodes[0].traits["torch"] = "evil\nFAIL  forged";
  nodes[0].open_files = 1000;
  const Findings all = examine(nodes, {});
  const std::string text = report_text(all, nodes);
  CHECK(text.starts_with("FAIL  torch: "));
  CHECK(contains(text, "      -> use the same environment"));
  CHECK_FALSE(contains(text, "\x1b"));
  CHECK_FALSE(contains(text, "\nFAIL  forged"));
  CHECK(contains(text, "\ndoctor: 1 failure, 1 warning, "));
  CHECK(has_failure(all));
}

TEST_CASE("doctor: a failed rendezvous also blames an endpoint that is a loopback address here") {
  const Error error{Errc::timed_out, "timed out"};
  const auto checks = [&](const EndpointView& endpoint) {
    std::set<std::string> names;
    for (const Finding& finding : judge_rendezvous(error, endpoint)) {
      CHECK(finding.level == Level::fail);
      names.insert(finding.check);
    }
    return names;
  };
  using Names = std::set<std::string>;
  CHECK(checks({"node1", 29500, "10.0.0.1", "node2", 2}) == Names{"rendezvous"});
  CHECK(checks({"node1", 29500, "127.0.1.1", "node2", 2}) == Names{"endpoint", "rendezvous"});
  CHECK(checks({"node1", 29500, "127.0.1.1", "node1", 2}) == Names{"rendezvous"});
  CHECK(checks({"localhost", 29500, "127.0.0.1", "node1", 2}) == Names{"rendezvous"});
  CHECK(checks({"127.0.0.1", 29500, "127.0.0.1", "node1", 2}) == Names{"rendezvous"});
  CHECK(judge_rendezvous(error, {"node1", 29500, "10.0.0.1", "node2", 2}).at(0).text ==
        "timed out; here node1 is 10.0.0.1");
  const Findings taken =
      judge_rendezvous({Errc::port_in_use, "taken"}, {"node1", 29500, "10.0.0.1", "node1", 2});
  CHECK(contains(taken.at(0).remedy, "another job or program has the port"));
  const Findings refused =
      judge_rendezvous({Errc::usage, "refused"}, {"node1", 29500, "10.0.0.1", "node2", 2});
  CHECK(refused.at(0).remedy == "give all nodes the same flags and the same secret, or none");
}
