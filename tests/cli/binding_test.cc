// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/cli/command_line.h"

using namespace ddprun;
using launcher::NumaBinding;

namespace {

/// Two NUMA nodes with two cores each, and two GPUs: the first one is next to the second node.
cli::Host two_nodes(std::vector<std::string> environment = {}) {
  cli::Host on = host(std::move(environment));
  on.topology = [] {
    return Result<launcher::Topology>(
        {{0, 0, 0, 0, 0}, {1, 1, 0, 0, 0}, {2, 2, 1, 1, 0}, {3, 3, 1, 1, 0}});
  };
  on.gpu_nodes = [](const std::vector<std::string>& devices) {
    std::vector<std::optional<int>> nodes;
    for (const std::string& device : devices) nodes.emplace_back(device == "0" ? 1 : 0);
    return nodes;
  };
  return on;
}

std::vector<std::vector<int>> cpus_of(const agent::JobSpec& job) {
  std::vector<std::vector<int>> cpus;
  for (const launcher::Binding& binding : job.bindings) cpus.push_back(binding.cpus);
  return cpus;
}

using Cpus = std::vector<std::vector<int>>;

}  // namespace

TEST_CASE("without a flag for bindings, ddprun does not read the machine's topology") {
  const agent::JobSpec plain = job({"train"});
  CHECK_FALSE(plain.numa_binding);
  CHECK(plain.bindings.empty());
}

TEST_CASE("each worker is bound next to its GPU") {
  CHECK(cpus_of(job({"--numa_binding", "node", "--nproc_per_node", "2", "train"}, two_nodes())) ==
        Cpus{{2, 3}, {0, 1}});
  CHECK(cpus_of(job({"--numa-binding=exclusive", "--nproc-per-node=4", "train"}, two_nodes())) ==
        Cpus{{2}, {0}, {3}, {1}});
  CHECK(cpus_of(job({"--numa_binding", "node", "--nproc_per_node", "2", "train"},
                    two_nodes({"CUDA_VISIBLE_DEVICES=1,0"}))) == Cpus{{0, 1}, {2, 3}});
  CHECK(cpus_of(job({"--numa_binding", "node", "--gpu_bind", "isolate", "train"}, two_nodes())) ==
        Cpus{{0, 1, 2, 3}});
}

TEST_CASE("a binding can be spelled with a dash or an underscore, or come from the environment") {
  CHECK(job({"--numa_binding", "core-complex", "train"}, two_nodes()).numa_binding ==
        NumaBinding::core_complex);
  CHECK(job({"--numa-binding", "core_complex", "train"}, two_nodes()).numa_binding ==
        NumaBinding::core_complex);
  CHECK(job({"train"}, two_nodes({"DDPRUN_NUMA_BINDING=socket"})).numa_binding ==
        NumaBinding::socket);
  CHECK(refusal({"--numa_binding", "sockets", "train"}) ==
        "--numa_binding expects node, socket, exclusive or core-complex, not 'sockets'");
}

TEST_CASE("an impossible binding is refused with the flag's name") {
  CHECK(refusal({"--numa_binding", "exclusive", "--nproc_per_node", "5", "train"}, two_nodes()) ==
        "--numa_binding exclusive: needs a core for each worker, but 3 workers have 2 cores "
        "on NUMA node 1");
}

TEST_CASE("without a binding, --report_bindings reports the inherited CPUs") {
  const agent::JobSpec spec = job({"--report_bindings", "--nproc_per_node", "2", "train"});
  CHECK(spec.report_bindings);
  CHECK(cpus_of(spec) == Cpus{{0, 1, 2, 3}, {0, 1, 2, 3}});
}

TEST_CASE("a dry run prints where each worker would run") {
  const std::string text = printed(
      {"--dry_run", "--numa_binding", "node", "--nproc_per_node", "2", "train"}, two_nodes());
  CHECK(text.find("\nrank 0 on GPU 0, CPUs 2-3 (NUMA node 1)\n"
                  "rank 1 on GPU 1, CPUs 0-1 (NUMA node 0)\n"
                  "each rank: WORLD_SIZE=2 ") != std::string::npos);

  const std::string inherited = printed({"--dry_run", "--report_bindings", "train"}, host({}, {}));
  CHECK(inherited.find("\nrank 0 on CPUs 0-3 (inherited)\n") != std::string::npos);
}

TEST_CASE("each virtual local rank gets one GPU, named in any way") {
  const std::string text =
      printed({"--dry_run", "--virtual_local_rank", "--nproc_per_node", "2", "train"},
              host({"CUDA_VISIBLE_DEVICES=MIG-7/1/0,GPU-c,03"}));
  CHECK(text.find("GPUs MIG-7/1/0,GPU-c,03 (divided among the workers)\n") != std::string::npos);
  CHECK(text.find("rank 0: RANK=0 LOCAL_RANK=0 ROLE_RANK=0 CUDA_VISIBLE_DEVICES=MIG-7/1/0 ") !=
        std::string::npos);
  CHECK(text.find("rank 1: RANK=1 LOCAL_RANK=0 ROLE_RANK=1 CUDA_VISIBLE_DEVICES=GPU-c ") !=
        std::string::npos);
  CHECK(job({"train"}, host({"PET_VIRTUAL_LOCAL_RANK=1"})).virtual_local_rank);
}

TEST_CASE("virtual local ranks need a GPU each, and exclude --gpu_bind isolate") {
  CHECK(refusal({"--nproc_per_node", "3", "--virtual_local_rank", "train"},
                host({"CUDA_VISIBLE_DEVICES=GPU-a,GPU-b"})) ==
        "--virtual_local_rank needs at least one GPU per worker: 3 workers, 2 GPUs on this host "
        "(CUDA_VISIBLE_DEVICES=GPU-a,GPU-b)");
  CHECK(refusal({"--virtual_local_rank", "train"}, host({}, {})) ==
        "--virtual_local_rank needs at least one GPU per worker: 1 worker, 0 GPUs on this host");
  CHECK(refusal({"--virtual_local_rank", "--gpu_bind", "isolate", "train"}) ==
        "--virtual_local_rank gives each worker one GPU, and --gpu_bind isolate its whole share: "
        "give one of the two");
}
