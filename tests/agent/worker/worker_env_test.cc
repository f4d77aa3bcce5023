// SPDX-License-Identifier: Apache-2.0
#include "agent/worker/worker_env.h"

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "agent/worker/worker_command.h"
#include "agent/worker/worker_devices.h"
#include "tests/catch.h"

using namespace ddprun;
using Strings = std::vector<std::string>;

namespace {

/// The second of two nodes with two workers each, in the third round after one restart.
rendezvous::Layout second_node() {
  rendezvous::Layout layout;
  layout.round = 2;
  layout.restarts = 1;
  layout.node_rank = 1;
  layout.node_count = 2;
  layout.first_rank = 2;
  layout.local_size = 2;
  layout.world_size = 4;
  return layout;
}

const rendezvous::Endpoint kStore{"gpu-07", 41237};

rendezvous::Layout alone() {
  return {};
}

agent::JobSpec two_workers() {
  agent::JobSpec job;
  job.local_size = 2;
  job.master_addr = "gpu-07";
  job.max_restarts = 3;
  job.run_id = "run-1";
  return job;
}

/// The whole environment of a worker.
Strings all_of(agent::WorkerEnv env, int local_rank, const std::string& error_file = "") {
  Strings all = env.own(local_rank, error_file);
  const Strings common = std::move(env).common();
  all.insert(all.end(), common.begin(), common.end());
  return all;
}

/// The value of `name`, "(unset)" without one; checks that no name appears twice.
std::string value(const Strings& environment, const std::string& name) {
  const auto count = std::count_if(environment.begin(), environment.end(),
                                   [&](const auto& text) { return text.starts_with(name + "="); });
  CHECK(count <= 1);
  const char* found = agent::find_variable(environment, name);
  return found ? found : "(unset)";
}

}  // namespace

TEST_CASE("a worker finds its place in the job as torchrun's workers do") {
  const agent::JobSpec job = two_workers();
  const agent::WorkerEnv env(job, {}, second_node(), kStore);

  CHECK(Strings{value(all_of(env, 1), "RANK"), value(all_of(env, 1), "LOCAL_RANK"),
                value(all_of(env, 1), "ROLE_RANK")} == Strings{"3", "1", "3"});
  CHECK(env.decided(0, "/logs/e.json") ==
        Strings{"RANK=2", "LOCAL_RANK=0", "ROLE_RANK=2", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2",
                "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "ROLE_NAME=default", "ROLE_WORLD_SIZE=4",
                "MASTER_ADDR=gpu-07", "MASTER_PORT=41237", "TORCHELASTIC_RESTART_COUNT=1",
                "TORCHELASTIC_MAX_RESTARTS=3", "TORCHELASTIC_RUN_ID=run-1",
                "TORCHELASTIC_USE_AGENT_STORE=True",
                "TORCHELASTIC_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT",
                "TORCH_NCCL_ASYNC_ERROR_HANDLING=1", "OMP_NUM_THREADS=1",
                "TORCHELASTIC_ERROR_FILE=/logs/e.json"});
}

TEST_CASE("if nodes have different roles, a worker has a rank among the workers of its role") {
  agent::JobSpec job = two_workers();
  job.role = "reader";
  rendezvous::Layout layout = second_node();
  layout.role = rendezvous::RolePlace{0, 2};
  const Strings worker = all_of(agent::WorkerEnv(job, {}, layout, kStore), 1);

  CHECK(Strings{value(worker, "RANK"), value(worker, "WORLD_SIZE")} == Strings{"3", "4"});
  CHECK(Strings{value(worker, "ROLE_NAME"), value(worker, "ROLE_RANK"),
                value(worker, "ROLE_WORLD_SIZE")} == Strings{"reader", "1", "2"});
}

TEST_CASE("ddprun's variables replace inherited ones, the others are passed on") {
  const agent::JobSpec job = two_workers();
  const Strings inherited = {"RANK=77",
                             "MASTER_PORT=1",
                             "HOME=/root",
                             "RANKING=x",
                             "=odd",
                             "LONELY",
                             "TORCHELASTIC_RESTART_COUNT=9"};
  const agent::WorkerEnv env(job, inherited, second_node(), kStore);
  const Strings all = all_of(env, 0);

  CHECK(value(all, "RANK") == "2");
  CHECK(value(all, "MASTER_PORT") == "41237");
  CHECK(value(all, "TORCHELASTIC_RESTART_COUNT") == "1");
  CHECK(value(all, "HOME") == "/root");
  CHECK(value(all, "RANKING") == "x");
  CHECK(std::count(all.begin(), all.end(), "LONELY") == 1);
  CHECK(all.size() == 4 + env.decided(0, "").size());
}

TEST_CASE("workers of several nodes get the interface towards the master, unless one is set") {
  agent::JobSpec job = two_workers();
  const agent::WorkerEnv unknown(job, {}, second_node(), kStore);
  CHECK(value(all_of(unknown, 0), "GLOO_SOCKET_IFNAME") == "(unset)");
  job.interface = "eth1";
  const agent::WorkerEnv several(job, {}, second_node(), kStore);
  CHECK(value(all_of(several, 0), "GLOO_SOCKET_IFNAME") == "eth1");
  const agent::WorkerEnv given(job, {"GLOO_SOCKET_IFNAME=ib0"}, second_node(), kStore);
  CHECK(value(all_of(given, 0), "GLOO_SOCKET_IFNAME") == "ib0");
  const agent::WorkerEnv one(job, {}, alone(), kStore);
  CHECK(value(all_of(one, 0), "GLOO_SOCKET_IFNAME") == "(unset)");
}

TEST_CASE("workers get a variable when rank 0 has to serve the store") {
  agent::JobSpec job = two_workers();
  job.store = agent::StoreHost::worker;

  const agent::WorkerEnv env(job, {}, second_node(), kStore);
  CHECK(value(all_of(env, 0), "TORCHELASTIC_USE_AGENT_STORE") == "False");
}

TEST_CASE("workers behind a tunnel also get the master's address, never an inherited one") {
  agent::JobSpec job = two_workers();
  const Strings inherited = {"DDPRUN_MASTER_ADDR=outer", "DDPRUN_MASTER_PORT=1"};
  const agent::WorkerEnv direct(job, inherited, second_node(), kStore);
  CHECK(value(all_of(direct, 0), "DDPRUN_MASTER_ADDR") == "(unset)");
  CHECK(value(all_of(direct, 0), "DDPRUN_MASTER_PORT") == "(unset)");

  job.store = agent::StoreHost::tunnel;
  job.master_port = 29500;
  const agent::WorkerEnv env(job, inherited, second_node(), {"127.0.0.1", 41237});
  CHECK(value(all_of(env, 0), "MASTER_ADDR") == "127.0.0.1");
  CHECK(value(all_of(env, 0), "MASTER_PORT") == "41237");
  CHECK(value(all_of(env, 0), "DDPRUN_MASTER_ADDR") == "gpu-07");
  CHECK(value(all_of(env, 0), "DDPRUN_MASTER_PORT") == "29500");
  CHECK(value(all_of(env, 0), "TORCHELASTIC_USE_AGENT_STORE") == "True");
}

TEST_CASE("workers get the list of signals that stop the job, not the inherited one") {
  agent::JobSpec job = two_workers();
  job.signals_to_handle = {SIGTERM, SIGUSR1};

  const agent::WorkerEnv env(job, {"TORCHELASTIC_SIGNALS_TO_HANDLE=SIGALRM"}, second_node(),
                             kStore);
  CHECK(value(all_of(env, 0), "TORCHELASTIC_SIGNALS_TO_HANDLE") == "SIGTERM,SIGUSR1");
}

TEST_CASE("the store's address is the round's, not the user's") {
  const agent::JobSpec job = two_workers();
  const agent::WorkerEnv env(job, {"MASTER_ADDR=old"}, second_node(), {"fd00::7", 29501});

  CHECK(value(all_of(env, 1), "MASTER_ADDR") == "fd00::7");
  CHECK(value(all_of(env, 1), "MASTER_PORT") == "29501");
}

TEST_CASE("several workers get one OpenMP thread each unless the user said otherwise") {
  const agent::JobSpec job = two_workers();
  const agent::WorkerEnv several(job, {}, second_node(), kStore);
  const agent::WorkerEnv users(job, {"OMP_NUM_THREADS=6"}, second_node(), kStore);
  const agent::WorkerEnv one(job, {}, alone(), kStore);

  CHECK(several.limits_omp_threads());
  CHECK(value(all_of(several, 0), "OMP_NUM_THREADS") == "1");
  CHECK_FALSE(users.limits_omp_threads());
  CHECK(value(all_of(users, 0), "OMP_NUM_THREADS") == "6");
  CHECK_FALSE(one.limits_omp_threads());
  CHECK(value(all_of(one, 0), "OMP_NUM_THREADS") == "(unset)");
}

TEST_CASE("the user's TORCH_NCCL_ASYNC_ERROR_HANDLING is kept") {
  const agent::JobSpec job = two_workers();
  const agent::WorkerEnv env(job, {"TORCH_NCCL_ASYNC_ERROR_HANDLING=3"}, second_node(), kStore);

  CHECK(value(all_of(env, 0), "TORCH_NCCL_ASYNC_ERROR_HANDLING") == "3");
}

TEST_CASE("every worker sees all GPUs of the node") {
  agent::JobSpec job = two_workers();
  job.devices = {"0", "1", "2"};
  const agent::WorkerEnv env(job, {}, second_node(), kStore);

  CHECK(value(all_of(env, 0), "CUDA_VISIBLE_DEVICES") == "0,1,2");
  CHECK(value(all_of(env, 1), "CUDA_VISIBLE_DEVICES") == "0,1,2");
}

TEST_CASE("an inherited list of GPUs is unchanged") {
  const char* list = GENERATE("", "-1", "GPU-a,MIG-b", "3,-1,4");
  agent::JobSpec job = two_workers();
  if (std::string(list) == "GPU-a,MIG-b") job.devices = {"GPU-a", "MIG-b"};
  const agent::WorkerEnv env(job, {std::string("CUDA_VISIBLE_DEVICES=") + list}, second_node(),
                             kStore);

  CHECK(value(all_of(env, 0), "CUDA_VISIBLE_DEVICES") == list);
}

TEST_CASE("without GPUs the list of GPUs is not set") {
  const agent::JobSpec job = two_workers();
  const agent::WorkerEnv env(job, {}, second_node(), kStore);

  CHECK(value(all_of(env, 0), "CUDA_VISIBLE_DEVICES") == "(unset)");
}

TEST_CASE("an isolated worker sees its own block of the node's GPUs under any name") {
  agent::JobSpec job = two_workers();
  job.gpu_bind = agent::GpuBind::isolate;
  job.devices = {"GPU-a", "MIG-b", "7", "2"};
  const agent::WorkerEnv env(job, {"CUDA_VISIBLE_DEVICES=GPU-a,MIG-b,7,2"}, second_node(), kStore);

  CHECK(value(all_of(env, 0), "CUDA_VISIBLE_DEVICES") == "GPU-a,MIG-b");
  CHECK(value(all_of(env, 1), "CUDA_VISIBLE_DEVICES") == "7,2");
  CHECK(value(all_of(env, 1), "LOCAL_RANK") == "1");
}

TEST_CASE("a worker with a virtual local rank is rank 0 on its node and has one GPU") {
  agent::JobSpec job = two_workers();
  job.virtual_local_rank = true;
  job.local_rank_flag = "--local-rank";
  job.command = {"train", "-x"};
  job.devices = {"GPU-a", "MIG-b", "07"};
  const agent::WorkerEnv env(job, {"CUDA_VISIBLE_DEVICES=GPU-a,MIG-b,07"}, second_node(), kStore);

  CHECK(value(all_of(env, 0), "CUDA_VISIBLE_DEVICES") == "GPU-a");
  CHECK(value(all_of(env, 1), "CUDA_VISIBLE_DEVICES") == "MIG-b");
  for (const int local_rank : {0, 1}) {
    CHECK(value(all_of(env, local_rank), "LOCAL_RANK") == "0");
    CHECK(value(all_of(env, local_rank), "LOCAL_WORLD_SIZE") == "2");
    CHECK(agent::worker_command(job, local_rank) == Strings{"train", "--local-rank=0", "-x"});
  }
  CHECK(value(all_of(env, 1), "RANK") == "3");
}

TEST_CASE("workers that see all GPUs use them in turn") {
  agent::JobSpec job = two_workers();
  CHECK(agent::devices_of(job, 1).empty());
  job.devices = {"0", "GPU-b"};
  CHECK(agent::devices_of(job, 1) == Strings{"GPU-b"});
  CHECK(agent::devices_of(job, 2) == Strings{"0"});
}

TEST_CASE("blocks of GPUs cover all of them and differ by at most one") {
  for (int workers = 1; workers <= 9; ++workers) {
    for (int gpus = workers; gpus <= 16; ++gpus) {
      INFO(workers << " workers, " << gpus << " GPUs");
      Strings all;
      for (int i = 0; i < gpus; ++i) all.push_back(std::to_string(i));

      Strings used;
      size_t smallest = all.size(), largest = 0;
      for (int rank = 0; rank < workers; ++rank) {
        const Strings block = agent::device_block(all, rank, workers);
        used.insert(used.end(), block.begin(), block.end());
        smallest = std::min(smallest, block.size());
        largest = std::max(largest, block.size());
      }
      CHECK(used == all);
      CHECK(largest - smallest <= 1);
    }
  }
}

TEST_CASE("ranks of MPI find their place, and none of another launcher's job") {
  agent::JobSpec job = two_workers();
  const Strings inherited = {"PMI_RANK=9",        "PMI_FD=9",
                             "PMIX_RANK=9",       "PMIX_MCA_gds=hash",
                             "MPI_LOCALRANKID=9", "OMPI_COMM_WORLD_RANK=9",
                             "HYDI_CONTROL_FD=9", "OMPI_MCA_btl=tcp,self"};
  CHECK(value(all_of({job, inherited, second_node(), kStore}, 1), "PMI_RANK") == "(unset)");
  job.local_size = 1;  // it has a place in that job
  CHECK(value(all_of({job, inherited, second_node(), kStore}, 0), "PMI_RANK") == "9");
  job.local_size = 2;
  job.mpi = agent::Mpi::pmi1;
  job.virtual_local_rank = true;
  const Strings all = all_of({job, inherited, second_node(), kStore}, 1);
  for (const auto& [name, expected] : {std::pair("PMI_RANK", "3"),
                                       {"PMI_SIZE", "4"},
                                       {"PMI_SPAWNED", "0"},
                                       {"MPI_LOCALRANKID", "1"},
                                       {"MPI_LOCALNRANKS", "2"},
                                       {"PMI_FD", "(unset)"},
                                       {"PMIX_RANK", "(unset)"},
                                       {"OMPI_COMM_WORLD_RANK", "(unset)"},
                                       {"HYDI_CONTROL_FD", "(unset)"},
                                       {"PMIX_MCA_gds", "hash"},
                                       {"OMPI_MCA_btl", "tcp,self"}}) {
    CHECK(value(all, name) == expected);
  }
  job.mpi = agent::Mpi::both;
  const Strings both = all_of({job, inherited, second_node(), kStore}, 0);
  CHECK(value(both, "PMI_RANK") == "2");
  CHECK(value(both, "OMPI_COMM_WORLD_RANK") == "2");
  CHECK(value(both, "OMPI_COMM_WORLD_LOCAL_SIZE") == "2");
  CHECK(value(both, "MPIR_CVAR_PMI_VERSION") == "1");
  CHECK(value(both, "PMIX_RANK") == "(unset)");
}
