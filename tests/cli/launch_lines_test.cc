// SPDX-License-Identifier: Apache-2.0
// Launch lines from manuals, tutorials and users' scripts, with `ddprun` instead of torchrun.
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "agent/worker/worker_command.h"
#include "rendezvous/net/endpoint.h"
#include "tests/catch.h"
#include "tests/cli/command_line.h"

using namespace ddprun;

namespace {

/// The arguments of a launch line without quotes, after the launcher.
class Line {
 public:
  explicit Line(const std::string& text) {
    std::istringstream stream(text);
    for (std::string word; stream >> word;) words_.push_back(word);
    size_t first = 0;
    if (words_.at(0) == "torchrun") first = 1;
    if (words_.at(0) == "python") first = 3;  // -m torch.distributed.run, or launch
    REQUIRE(first > 0);
    for (size_t i = first; i < words_.size(); ++i) pointers_.push_back(words_[i].c_str());
  }
  const Words& words() const { return pointers_; }

 private:
  std::vector<std::string> words_;
  Words pointers_;
};

/// The size of the job, the endpoint, this node's rank, restarts and id, and the last worker's
/// command.
std::string summary(const agent::JobSpec& job) {
  std::string text = std::to_string(job.min_nodes);
  if (job.max_nodes != job.min_nodes) text += ":" + std::to_string(job.max_nodes);
  text += "x" + std::to_string(job.local_size) + " at ";
  text += rendezvous::Endpoint{job.master_addr, job.master_port}.text();
  if (job.node_rank) text += ", node " + std::to_string(*job.node_rank);
  if (job.max_restarts > 0) text += ", restarts " + std::to_string(job.max_restarts);
  if (job.run_id != "none") text += ", id " + job.run_id;
  text += ':';
  for (const std::string& word : agent::worker_command(job, job.local_size - 1)) text += " " + word;
  return text;
}

std::string started_by(const std::string& line, const cli::Host& on = host()) {
  return summary(job(Line(line).words(), on));
}

}  // namespace

TEST_CASE("a launch line for one node does the same as under torchrun") {
  const auto [line, started] = GENERATE(table<std::string, std::string>({
      {"torchrun train.py", "1x1 at 127.0.0.1:0: /bin/python3 -u train.py"},
      {"torchrun --standalone --nnodes=1 --nproc-per-node=4 train.py --arg1 1",
       "1x4 at 127.0.0.1:0: /bin/python3 -u train.py --arg1 1"},
      {"torchrun --rdzv-backend=c10d --rdzv-endpoint=localhost:0 --nnodes=1 --nproc-per-node=4 "
       "train.py",
       "1x4 at localhost:0: /bin/python3 -u train.py"},
      {"torchrun --standalone --nproc_per_node=gpu multigpu.py 50 10",
       "1x2 at 127.0.0.1:0: /bin/python3 -u multigpu.py 50 10"},
      {"torchrun --nproc-per-node=auto train.py", "1x2 at 127.0.0.1:0: /bin/python3 -u train.py"},
      {"torchrun --nproc_per_node cpu train.py", "1x4 at 127.0.0.1:0: /bin/python3 -u train.py"},
      {"torchrun --nproc_per_node=8 train.py --model resnext50_32x4d --epochs 100 --amp",
       "1x8 at 127.0.0.1:0: /bin/python3 -u train.py --model resnext50_32x4d --epochs 100 --amp"},
      {"torchrun --nproc_per_node=4 --master_port=20001 train_mem.py --bf16 True",
       "1x4 at 127.0.0.1:20001: /bin/python3 -u train_mem.py --bf16 True"},
      {"torchrun --standalone --nnodes=1 --nproc_per_node=4 --master_port=29517 scripts/train.py",
       "1x4 at 127.0.0.1:0: /bin/python3 -u scripts/train.py"},
      {"torchrun --nnode=1 --node_rank=0 --nproc_per_node=2 train.py",
       "1x2 at 127.0.0.1:0, node 0: /bin/python3 -u train.py"},
      {"torchrun --nproc-per-node 4 -m pkg.train --config a.yaml",
       "1x4 at 127.0.0.1:0: /bin/python3 -u -m pkg.train --config a.yaml"},
      {"torchrun --nproc-per-node 2 -m pytest -v tests/test_ddp.py",
       "1x2 at 127.0.0.1:0: /bin/python3 -u -m pytest -v tests/test_ddp.py"},
      {"torchrun -m --nproc_per_node=2 pkg.train",
       "1x2 at 127.0.0.1:0: /bin/python3 -u -m pkg.train"},
      {"torchrun --no-python --nproc_per_node 2 ./bind.sh python train.py",
       "1x2 at 127.0.0.1:0: ./bind.sh python train.py"},
      {"torchrun --nproc_per_node 2 --monitor_interval 5 --start_method fork --event_log_handler "
       "null --role trainer train.py",
       "1x2 at 127.0.0.1:0: /bin/python3 -u train.py"},
      {"python -m torch.distributed.run --nproc_per_node=2 --max_restarts=3 train.py --seed 42",
       "1x2 at 127.0.0.1:0, restarts 3: /bin/python3 -u train.py --seed 42"},
      {"python -m torch.distributed.launch --use_env --nproc_per_node 2 main.py --dist-url env://",
       "1x2 at 127.0.0.1:0: /bin/python3 -u main.py --dist-url env://"},
      {"python -m torch.distributed.launch --nproc_per_node=2 --pass_local_rank=dash old.py --lr 1",
       "1x2 at 127.0.0.1:0: /bin/python3 -u old.py --local-rank=1 --lr 1"},
      {"python -m torch.distributed.launch --nnodes=1 --node_rank=0 --master_addr=127.0.0.1 "
       "--nproc_per_node=8 --master_port=29500 tools/train.py config.py --launcher pytorch",
       "1x8 at 127.0.0.1:29500, node 0: /bin/python3 -u tools/train.py config.py --launcher "
       "pytorch"},
  }));
  INFO(line);

  CHECK(started_by(line) == started);
}

TEST_CASE("a launch line for several nodes does the same as under torchrun") {
  const auto [line, started] = GENERATE(table<std::string, std::string>({
      {"torchrun --nnodes=4 --nproc-per-node=8 --max-restarts=3 --rdzv-id=job7 --rdzv-backend=c10d "
       "--rdzv-endpoint=node1.example.com train.py",
       "4x8 at node1.example.com:29500, restarts 3, id job7: /bin/python3 -u train.py"},
      {"torchrun --nnodes=1:4 --nproc-per-node=8 --max-restarts=3 --rdzv-id=job7 "
       "--rdzv-backend=c10d --rdzv-endpoint=node1.example.com:29400 train.py",
       "1:4x8 at node1.example.com:29400, restarts 3, id job7: /bin/python3 -u train.py"},
      {"torchrun --nnodes 4 --nproc_per_node 1 --rdzv_id 8123 --rdzv_backend c10d "
       "--rdzv_endpoint 10.1.0.5:29500 /shared/multinode.py 50 10",
       "4x1 at 10.1.0.5:29500, id 8123: /bin/python3 -u /shared/multinode.py 50 10"},
      {"torchrun --nproc_per_node 8 --nnodes 2 --node_rank 1 --master_addr gpu-01 --master_port "
       "9901 program.py --deepspeed ds.json",
       "2x8 at gpu-01:9901, node 1: /bin/python3 -u program.py --deepspeed ds.json"},
      {"torchrun --nproc_per_node 8 --nnodes 2 --master_addr 10.0.0.1 --master_port 6000 "
       "--node_rank 0 pretrain_gpt.py --tensor-model-parallel-size 2 --lr 1.0e-5",
       "2x8 at 10.0.0.1:6000, node 0: /bin/python3 -u pretrain_gpt.py "
       "--tensor-model-parallel-size 2 --lr 1.0e-5"},
      {"torchrun --nnodes 2 --nproc_per_node 4 --master_addr gpu-01 --master_port 48994 --rdzv_id "
       "5 "
       "--rdzv_endpoint gpu-01:29500 --rdzv_backend c10d main.py",
       "2x4 at gpu-01:29500, id 5: /bin/python3 -u main.py"},
      {"torchrun --nnodes=2 --nproc_per_node=4 --rdzv_conf=join_timeout=60,is_host=1 "
       "--rdzv_endpoint=[fd00::1]:29500 train.py",
       "2x4 at [fd00::1]:29500: /bin/python3 -u train.py"},
      {"python -m torch.distributed.launch --nproc-per-node=4 --nnodes=2 --node-rank=1 "
       "--master-addr=192.168.1.1 --master-port=1234 train.py --arg1",
       "2x4 at 192.168.1.1:1234, node 1: /bin/python3 -u train.py --arg1"},
  }));
  INFO(line);

  CHECK(started_by(line) == started);
}

TEST_CASE("a pod that a training operator has set up needs no flag") {
  const cli::Host pod = host({"PET_NNODES=2", "PET_NPROC_PER_NODE=auto", "PET_NODE_RANK=1",
                              "PET_MASTER_ADDR=job-0.job", "PET_MASTER_PORT=29500"});

  CHECK(started_by("torchrun train.py", pod) ==
        "2x2 at job-0.job:29500, node 1: /bin/python3 -u train.py");
  CHECK(started_by("torchrun --nproc_per_node=1 train.py", pod) ==
        "2x1 at job-0.job:29500, node 1: /bin/python3 -u train.py");
}

TEST_CASE("a node's rank is ignored with c10d: scripts give one rank to all nodes") {
  const std::string line =
      "torchrun --nnodes=2 --node_rank=0 --rdzv_endpoint=10.0.0.1:29603 --rdzv_backend=";

  CHECK(started_by(line + "c10d train.py") == "2x1 at 10.0.0.1:29603: /bin/python3 -u train.py");
  CHECK(started_by(line + "static train.py") ==
        "2x1 at 10.0.0.1:29603, node 0: /bin/python3 -u train.py");
  CHECK_FALSE(job({"--node_rank", "9", "--rdzv_backend", "c10d", "train"}).node_rank);
  CHECK(job({"--node_rank", "0", "train"}, host({"PET_RDZV_BACKEND=c10d"})).node_rank ==
        std::nullopt);
  CHECK(job({"--rdzv_backend", "static", "--node_rank", "0", "train"},
            host({"PET_RDZV_BACKEND=c10d"}))
            .node_rank == 0);
}

TEST_CASE("two dashes right after a Python program are removed once, as under torchrun") {
  const auto [line, command] = GENERATE(table<std::string, std::string>({
      {"torchrun train.py -- --log x", "/bin/python3 -u train.py --log x"},
      {"torchrun -m pkg.train -- --log x", "/bin/python3 -u -m pkg.train --log x"},
      {"torchrun train.py -- -- x", "/bin/python3 -u train.py -- x"},
      {"torchrun train.py a -- b", "/bin/python3 -u train.py a -- b"},
      {"torchrun train.py --", "/bin/python3 -u train.py"},
      {"torchrun -- train.py -- x", "/bin/python3 -u train.py -- x"},
      {"torchrun -- train.py x", "/bin/python3 -u train.py x"},
      {"torchrun ./train -- x", "./train -- x"},
      {"torchrun --no_python train.py -- x", "train.py -- x"},
      {"torchrun --pass_local_rank=dash train.py -- x",
       "/bin/python3 -u train.py --local-rank=0 x"},
  }));
  INFO(line);

  CHECK(started_by(line) == "1x1 at 127.0.0.1:0: " + command);
}

TEST_CASE("the macro of the local rank is replaced in each worker's arguments") {
  const auto [line, command] = GENERATE(table<std::string, std::string>({
      {"torchrun --nproc_per_node=12 train.py --gpu ${local_rank} "
       "--log=${local_rank}/${local_rank}",
       "/bin/python3 -u train.py --gpu 11 --log=11/11"},
      {"torchrun --nproc_per_node=12 ./train x${local_rank}y", "./train x11y"},
      {"torchrun --nproc_per_node=12 train.py $${local_rank}",
       "/bin/python3 -u train.py ${local_rank}"},
      {"torchrun --nproc_per_node=12 train.py $local_rank ${rank} ${local_rank $$ $ ${LOCAL_RANK}",
       "/bin/python3 -u train.py $local_rank ${rank} ${local_rank $$ $ ${LOCAL_RANK}"},
      {"torchrun --nproc_per_node=12 ${local_rank}.py", "/bin/python3 -u ${local_rank}.py"},
  }));
  INFO(line);

  CHECK(started_by(line) == "1x12 at 127.0.0.1:0: " + command);
}

TEST_CASE("a program gets its own flags, even if they resemble ddprun's") {
  const std::string own =
      "--log x --r=16 -r 3 -t3 --mo --signal 9 --nproc_per_node 4 --nnode 2 --standalone -m y "
      "--help";

  CHECK(started_by("torchrun train.py " + own) ==
        "1x1 at 127.0.0.1:0: /bin/python3 -u train.py " + own);
  CHECK(started_by("torchrun -m train " + own) ==
        "1x1 at 127.0.0.1:0: /bin/python3 -u -m train " + own);
}

TEST_CASE("a mistyped flag is refused with the flag that was probably meant") {
  const auto [line, sentence] = GENERATE(table<std::string, std::string>({
      {"torchrun --master_adderss a train.py",
       "unknown flag --master_adderss; did you mean --master_addr?"},
      {"torchrun --nodes=1 train.py", "unknown flag --nodes; did you mean --nnodes?"},
      {"torchrun --nproc_per_nodes=1 train.py",
       "unknown flag --nproc_per_nodes; did you mean --nproc_per_node?"},
      {"torchrun --nproc-per-gpu=1 train.py",
       "unknown flag --nproc-per-gpu; did you mean --nproc_per_node?"},
      {"torchrun --rdvz_endpoint=a train.py",
       "unknown flag --rdvz_endpoint; did you mean --rdzv_endpoint?"},
      {"torchrun --noderank=1 train.py", "unknown flag --noderank; did you mean --node_rank?"},
      {"torchrun --max_restart=1 train.py",
       "unknown flag --max_restart; did you mean --max_restarts?"},
      {"torchrun -nproc_per_node 2 train.py",
       "unknown flag -nproc_per_node; did you mean --nproc_per_node?"},
      {"torchrun -np 4 train.py", "unknown flag -np; did you mean --nproc_per_node?"},
      {"torchrun -n 4 train.py", "unknown flag -n; did you mean --nproc_per_node?"},
      {"torchrun --stand train.py", "unknown flag --stand; did you mean --standalone?"},
      {"torchrun --world_size 4 train.py",
       "unknown flag --world_size; ddprun --help lists all flags"},
  }));
  INFO(line);

  CHECK(refusal(Line(line).words()) == sentence);
}

TEST_CASE("a launch line with an empty or wrong value is refused with the flag's name") {
  const auto [line, sentence] = GENERATE(table<std::string, std::string>({
      {"torchrun --nproc_per_node= train.py",
       "--nproc_per_node expects a number of workers (1 to 65536), auto, gpu, cpu or gpu-or-1, not "
       "''"},
      {"torchrun --nnodes=2 --node_rank= train.py",
       "--node_rank expects a number, 0 or more, not ''"},
      {"torchrun --nnodes=2 --rdzv_endpoint=:29500 train.py",
       "--rdzv_endpoint :29500 names no host: give HOST:PORT (only ddprun serve listens at every "
       "address)"},
      {"torchrun --nnodes=2 --nproc_per_node=4 train.py",
       "--nnodes 2 needs --rdzv_endpoint HOST[:PORT], the same on every node"},
      {"torchrun --master_port=66664 train.py",
       "--master_port expects a port number, 0 to 65535 (0: a free one), not '66664'"},
      {"torchrun --nproc_per_node xpu train.py",
       "--nproc_per_node expects a number of workers (1 to 65536), auto, gpu, cpu or gpu-or-1, not "
       "'xpu'"},
  }));
  INFO(line);

  CHECK(refusal(Line(line).words()) == sentence);
}

TEST_CASE("torchrun's template for prefixes means --prefix, which overrides it") {
  const auto prefix = [](Words words, const cli::Host& on = host()) {
    words.push_back("train");
    return job(words, on).prefix;
  };
  const cli::Host on = host({"PET_LOG_LINE_PREFIX_TEMPLATE=${rank}> "});

  CHECK(prefix({"--log-line-prefix-template", "${hostname}:${rank}: "}) == "${hostname}:${rank}: ");
  CHECK(prefix({"--prefix", "a ", "--log_line_prefix_template", "b "}) == "a ");
  CHECK(prefix({"--nproc_per_node", "2", "--log_line_prefix_template="}) == "[${rank}] ");
  CHECK(prefix({}, on) == "${rank}> ");
  CHECK(prefix({"--prefix", "a "}, on) == "a ");
}

TEST_CASE("torchrun's log flags have letters, with the value in the same word or the next") {
  const std::string spelling = GENERATE("-r3 -t0:1,7:3", "-r 3 -t 0:1,7:3", "-r=3 -t=0:1,7:3",
                                        "--redirects 3 --tee=0:1,7:3", "--redirect=3 -t 0:1,7:3");
  INFO(spelling);
  const agent::JobSpec spec =
      job(Line("torchrun --nproc-per-node 8 --local-ranks-filter 0 --role rank " + spelling +
               " train.py -r 0 -t0")
              .words());

  CHECK(spec.logs.redirects.others == 3);
  CHECK(spec.logs.redirects.named.empty());
  CHECK(spec.logs.tees.others == 0);
  CHECK(spec.logs.tees.named == std::map<int, unsigned>{{0, 1}, {7, 3}});
  CHECK(spec.command.back() == "-t0");
}
