// SPDX-License-Identifier: Apache-2.0
// Buffers on devices, through libddp's NCCL backend. With DDP_REAL_GPU=1, uses this machine's GPUs
// and NCCL; else a fake driver and NCCL that work in host memory (fake_gpu/).

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ddp/error.h"
#include "tests/catch.h"
#include "tests/collectives/backends/nccl/gpus.h"
#include "tests/collectives/folder.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"
#include "tests/paths.h"

using namespace ddprun::tests;
using ddp::ErrorKind;

namespace {

constexpr const char* kShortMs = "1500";  // milliseconds

std::vector<Ended> run_workers(int size, std::vector<std::string> arguments,
                               const Variables& more = {}) {
  arguments.insert(arguments.begin(), program_path("device_worker"));
  return run_ranks(size, arguments, on_gpu(more));
}

}  // namespace

TEST_CASE("operations give the right results for every type on a device, in place or not",
          "[gpu]") {
  const int size = GENERATE(1, 2, 3, 4);
  if (!are_enough(size)) return;
  for (const Ended& rank : run_ranks(size, {program_path("device_operations")}, on_gpu())) {
    INFO(size << " ranks: " << rank.output);
    CHECK(rank.code == 0);
    CHECK(contains(rank.output,
                   "all_reduce cannot take the product of complex64 on a device: NCCL "
                   "has no complex numbers"));
    CHECK(contains(rank.output,
                   "all_reduce cannot take the sum of int16 on a device: NCCL has no "
                   "integers of 16 bits"));
    CHECK(contains(rank.output,
                   "all_reduce cannot take the bxor of int8 on a device: NCCL has no "
                   "bitwise operations"));
  }
}

TEST_CASE("floats of 8 bits are moved on a device by any NCCL, and combined by newer ones") {
  const auto ended = run_workers(2, {"float8"}, {{"FAKE_NCCL_VERSION", "22304"}});
  for (const Ended& rank : ended) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    CHECK(contains(rank.output,
                   "all_reduce cannot take the sum of float8_e4m3 on a device: this "
                   "needs NCCL 2.24 or later"));
  }
}

TEST_CASE("calls on a device keep their order among streams, hosts and groups", "[gpu]") {
  const std::string scenario = GENERATE("order", "beside", "messages", "capture",
                                        "thread's capture", "train", "default stream");
  if (!are_enough(3)) return;
  for (const Ended& rank : run_workers(3, {scenario})) {
    INFO(scenario << ": " << rank.output);
    CHECK(rank.code == 0);
  }
}

TEST_CASE("NCCL may launch calls in the thread that makes them", "[gpu]") {
  const std::string scenario = GENERATE("order", "beside", "messages", "capture", "train");
  if (!are_enough(3)) return;
  for (const Ended& rank : run_workers(3, {scenario}, {{"NCCL_COMM_BLOCKING", "1"}})) {
    INFO(scenario << ": " << rank.output);
    CHECK(rank.code == 0);
  }
}

TEST_CASE("unsupported calls on a device are refused, and the group stays as it was", "[gpu]") {
  if (!are_enough(2)) return;
  for (const Ended& rank : run_workers(2, {"misuse"})) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    CHECK(contains(rank.output, "all_reduce: in is on a device, but out in host memory"));
    CHECK(contains(rank.output, "connects its ranks, and cannot be captured"));
    CHECK(contains(rank.output, "cannot be part of a group call"));
  }
}

TEST_CASE("one process drives all GPUs", "[gpu]") {
  const Ended ended = Rank({program_path("device_local"), "all"}, on_gpu()).wait();
  INFO(ended.output);
  CHECK(ended.code == 0);
  CHECK(contains(ended.output, "barrier in host memory: the ranks of init_local_devices"));
  CHECK(contains(ended.output, "device 99, but devices are 0 to "));
  CHECK(contains(ended.output, "device 0 is listed twice"));
  if (are_enough(2)) CHECK(contains(ended.output, "in is on GPU 1, but this group uses GPU 0: "));
}

TEST_CASE("a rank that ends in a call ends it for all, and streams continue", "[gpu]") {
  if (!are_enough(3)) return;
  const auto ended = run_workers(3, {"die", "20000"});
  for (const int rank : {0, 2}) {
    INFO(ended[rank].output);
    // NCCL notices it if it uses sockets; otherwise the group's timeout does.
    CHECK((ended[rank].code == failed(ErrorKind::peer_lost) ||
           (is_real() && ended[rank].code == failed(ErrorKind::timed_out))));
    CHECK(contains(ended[rank].output, "in #2 all_reduce sum float32[1000]"));
  }
}

TEST_CASE("a rank that makes no call is waited for until the timeout", "[gpu]") {
  if (!are_enough(2)) return;
  const LiveStore store;
  Variables first = on_gpu(place(0, 2, store.port()));
  Variables second = on_gpu(place(1, 2, store.port()));
  first["NCCL_COMM_BLOCKING"] = second["NCCL_COMM_BLOCKING"] = GENERATE("0", "1");
  const std::string scenario = GENERATE("late", "never-come");
  const Rank idle({program_path("device_worker"), scenario, kShortMs}, second);
  const Ended ended = Rank({program_path("device_worker"), scenario, kShortMs}, first).wait();
  INFO(ended.output);
  CHECK(ended.code == failed(ErrorKind::timed_out));
  // The first to notice reports it: the group's watchdog or the backend.
  CHECK(contains(ended.output, "1500 ms"));
  CHECK(contains(ended.output,
                 scenario == "late" ? "in #2 all_reduce sum float32[1000]" : "rank 1 "));
}

TEST_CASE("an exception aborts the calls on a device", "[gpu]") {
  if (!are_enough(2)) return;
  const LiveStore store;
  const Rank idle({program_path("device_worker"), "unwind"}, on_gpu(place(1, 2, store.port())));
  const Ended ended =
      Rank({program_path("device_worker"), "unwind"}, on_gpu(place(0, 2, store.port()))).wait();
  INFO(ended.output);
  CHECK(ended.code == 2);
  CHECK(contains(ended.output, "thrown by the program"));
}

TEST_CASE("a failure that NCCL finds reaches all ranks with NCCL's message") {
  const auto ended = run_workers(2, {"fail"}, {{"FAKE_NCCL_FAIL", "1:1"}});
  INFO(ended[0].output << ended[1].output);
  CHECK(ended[1].code == failed(ErrorKind::system));
  CHECK(contains(ended[1].output,
                 "rank 1 failed in #1 all_reduce sum float32[1000]: NCCL: an error of the "
                 "fake NCCL: made to fail"));
  CHECK(ended[0].code != 0);
}

TEST_CASE("a failure of NCCL ends the calls of all groups on all ranks") {
  const auto ended = run_workers(2, {"fail-beside"}, {{"FAKE_NCCL_FAIL", "1:3"}});
  const std::string cause =
      "rank 1 failed in #3 all_reduce sum float32[1000]: NCCL: an error of the fake NCCL: made to "
      "fail\n";
  for (const Ended& rank : ended) {
    INFO(rank.output);
    CHECK(rank.code == failed(ErrorKind::system));
  }
  INFO(ended[0].output);
  CHECK(ended[0].output.starts_with(
      "ddp: rank 0 failed in #3 all_reduce sum float32[1000]: " + cause + "ddp: rank 0 failed"));
  CHECK(ended[0].output.ends_with(": " + cause));
  CHECK(ended[1].output == "ddp: " + cause + "ddp: " + cause);
}

TEST_CASE("a refused call fails its whole group call, whose calls are then given up") {
  const auto [scenario, rank] = GENERATE(table<std::string, std::string>(
      {{"refuse-one", "0"}, {"refuse-call", "2"}, {"refuse-begun", "2"}}));
  const Ended ended =
      Rank({program_path("device_local"), scenario}, on_gpu({{"FAKE_NCCL_REFUSE", rank + ":2"}}))
          .wait();
  INFO(scenario << ": " << ended.output);
  CHECK(ended.code == 0);
  CHECK(ended.output.starts_with("ddp: rank " + rank +
                                 " failed in #2 all_reduce sum float32[1000]: NCCL: invalid "
                                 "argument: made to be refused\n"));
}

TEST_CASE("the calls of an open group call are aborted when it ends") {
  const Ended ended = Rank({program_path("device_local"), "linger", kShortMs}, on_gpu()).wait();
  INFO(ended.output);
  CHECK(ended.code == 0);
  CHECK(contains(ended.output, " timed out after 1500 ms in #2 all_reduce sum float32[1000]\n"));
}

TEST_CASE("a process whose group call never ends exits: its calls cannot be aborted") {
  const Ended ended = Rank({program_path("device_local"), "stay", kShortMs}, on_gpu()).wait();
  INFO(ended.output);
  CHECK(ended.code == 124);
  CHECK(contains(ended.output,
                 " ms in #2 all_reduce sum float32[1000]. Its calls did not end within "
                 "another 5 s: ending the process"));
}

TEST_CASE("a local rank that cannot connect is named, with NCCL's message") {
  const auto [variable, words] = GENERATE(table<std::string, std::string>(
      {{"FAKE_NCCL_REFUSE", "invalid argument: made to be refused"},
       {"FAKE_NCCL_FAIL", "an error of the fake NCCL: made to fail"}}));
  const Ended ended =
      Rank({program_path("device_local"), "connect"}, on_gpu({{variable, "2:0"}})).wait();
  INFO(ended.output);
  CHECK(ended.code == failed(ErrorKind::system));
  CHECK(ended.output == "ddp: rank 2 failed while connecting through NCCL: NCCL: " + words + "\n");
}

TEST_CASE("a receive on a device without a send times out and names its sender's state") {
  const LiveStore store;
  const Rank idle({program_path("device_worker"), "lone-receive", kShortMs},
                  on_gpu(place(1, 2, store.port())));
  const Ended ended = Rank({program_path("device_worker"), "lone-receive", kShortMs},
                           on_gpu(place(0, 2, store.port())))
                          .wait();
  INFO(ended.output);
  CHECK(ended.code == failed(ErrorKind::timed_out));
  CHECK(
      ended.output ==
      "ddp: rank 0 timed out after 1500 ms in #1 recv float32[1000] from rank 1, tag 0: rank 1 is "
      "in no call since #1 all_reduce sum float32[1000], rank 0 at #1 recv float32[1000] from "
      "rank 1, tag 0\n");
}

TEST_CASE("an NCCL that does not connect is given up after the timeout") {
  const auto ended = run_workers(2, {"stuck", kShortMs}, {{"FAKE_NCCL_STUCK", "0"}});
  for (const Ended& rank : ended) {
    INFO(rank.output);
    CHECK(rank.code == failed(ErrorKind::timed_out));
    CHECK(contains(rank.output, "timed out after 1500 ms"));
  }
}

TEST_CASE("a process uses the GPU of its place on the node, among those that it sees") {
  const std::vector<std::pair<Variables, std::string>> cases = {
      {{}, "0, then 3"},
      {{{"LOCAL_RANK", "2"}}, "2, then 3"},
      {{{"OMPI_COMM_WORLD_LOCAL_RANK", "1"}}, "1, then 3"},
      {{{"LOCAL_RANK", ""}, {"SLURM_LOCALID", "1"}}, "1, then 3"},
      {{{"LOCAL_RANK", "6"}}, "2, then 3"},
      {{{"LOCAL_RANK", "2"}, {"CUDA_VISIBLE_DEVICES", "3"}}, "0, then 0"},
      {{{"LOCAL_RANK", "1"}, {"CUDA_VISIBLE_DEVICES", "GPU-2,GPU-0"}}, "1, then 1"},
      {{{"LOCAL_RANK", "1"}, {"CUDA_VISIBLE_DEVICES", "MIG-0/1,MIG-0/2"}}, "0, then 0"},
      {{{"CUDA_VISIBLE_DEVICES", ""}}, "this process sees no GPU (CUDA_VISIBLE_DEVICES=)"},
      {{{"CUDA_VISIBLE_DEVICES", "-1"}}, "this process sees no GPU (CUDA_VISIBLE_DEVICES=-1)"},
  };
  for (const auto& [variables, expected] : cases) {
    Variables all = variables;
    all.emplace("LD_LIBRARY_PATH", fake_gpu_folder());
    const Ended ended = Rank({program_path("device_worker"), "which"}, all).wait();
    INFO(ended.output);
    CHECK(contains(ended.output, expected + "\n"));
  }
}

TEST_CASE("on a machine without GPU, driver or NCCL the error names what is missing") {
  const Folder broken;
  const std::filesystem::path& folder = broken.path;
  const auto output_with = [&](const Variables& variables) {
    Variables all = place(0, 1, 1);
    for (const auto& [name, value] : variables) all[name] = value;
    const Ended ended = Rank({program_path("device_worker"), "missing"}, all).wait();
    INFO(ended.output);
    CHECK(ended.code == failed(ErrorKind::usage));
    return ended.output;
  };
  const std::ofstream no_driver(folder / "libcuda.so.1");  // found, but no library
  CHECK(contains(output_with({{"LD_LIBRARY_PATH", folder}}), "it comes with NVIDIA's driver"));
  std::filesystem::remove(folder / "libcuda.so.1");
  const std::ofstream no_nccl(folder / "libnccl.so.2");
  CHECK(contains(output_with({{"LD_LIBRARY_PATH", folder.string() + ":" + fake_gpu_folder()}}),
                 "install NCCL (libnccl2)"));
  CHECK(contains(output_with({{"LD_LIBRARY_PATH", fake_gpu_folder()}, {"FAKE_GPUS", "0"}}),
                 "this process sees no GPU"));
}
