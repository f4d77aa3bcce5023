// SPDX-License-Identifier: Apache-2.0
// Process groups that cannot be made, and calls that groups refuse.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "ddp/process_group.h"
#include "tests/catch.h"
#include "tests/collectives/folder.h"
#include "tests/collectives/ranks.h"
#include "tests/collectives/stores/job_store.h"
#include "tests/contains.h"
#include "tests/paths.h"
#include "tests/unused_port.h"

using namespace ddprun::tests;
using ddp::ErrorKind;
using ddp::ProcessGroup;
using ddp::ReduceOp;

namespace {

const auto kJustMeet = [](ProcessGroup& group) { group.barrier(); };

}  // namespace

TEST_CASE("the error names ranks that do not join") {
  const LiveStore store;
  std::vector<Rank> ranks;
  const Words command = rank_command([] {
    const auto there = job_store();
    there->set("runs/" + variable_or("RANK", ""), "");
    there->wait({"runs/0", "runs/2"});  // so that both begin to join at once
    join();
  });
  for (const int rank : {0, 2}) {
    Variables variables = kImpatientToJoin;
    variables.merge(place(rank, 4, store.port()));
    ranks.emplace_back(command, variables);
  }
  check_failure({ranks[0].wait(), ranks[1].wait()}, ErrorKind::timed_out,
                {"ranks 1 and 3 did not join within 1500 ms"});
}

TEST_CASE("a rank that comes after rank 0 has given up waiting is notified at once") {
  const LiveStore store;
  Variables impatient = kImpatientToJoin;
  impatient.merge(place(0, 2, store.port()));
  const Ended first = Rank(rank_command(kJustMeet), impatient).wait();
  Variables patient = place(1, 2, store.port());
  patient["DDP_TEST_JOIN_MS"] = "3600000";
  const Ended late = Rank(rank_command(kJustMeet), patient).wait();
  check_failure({first, late}, ErrorKind::timed_out, {"rank 1 did not join within 1500 ms"});
}

TEST_CASE("a rank that waits for a rank 0 that has joined, and hangs or has ended, names it") {
  const auto [is_listening, kind, text] = GENERATE(table<bool, ErrorKind, std::string>({
      {true, ErrorKind::timed_out, "rank 0 did not see all ranks join within 1500 ms"},
      {false, ErrorKind::peer_lost, "lost rank 0 while connecting: Connection refused"},
  }));
  const LiveStore store;
  const Words command = rank_command(
      [](int port) {
        job_store()->set("ddp/0/joined/0", "127.0.0.1 " + std::to_string(port) + " 1 cpu");
        join();
      },
      is_listening ? store.port() : unused_port());
  Variables variables = kImpatientToJoin;
  variables.merge(place(1, 2, store.port()));
  check_failure({Rank(command, variables).wait()}, kind, {text});
}

TEST_CASE("the error names a store that is not there") {
  const std::uint16_t port = unused_port();
  Variables variables = kImpatientToJoin;
  variables.merge(place(1, 2, port));
  check_failure(
      {Rank(rank_command(kJustMeet), variables).wait()}, ErrorKind::timed_out,
      {"cannot reach the store at 127.0.0.1:" + std::to_string(port), "Connection refused"});
}

TEST_CASE("wrong arguments are refused, and the group stays as it was", "[mpi]") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) {
    std::vector<std::int32_t> data(4, group.rank());
    const ddp::DeviceSpan<std::int32_t> device = {data.data(), data.size()};
    const ddp::P2POp mixture[] = {ddp::P2POp::send(data, 1 - group.rank()),
                                  ddp::P2POp::recv(device, 1 - group.rank())};
    const ddp::DeviceSpan<std::int32_t> elsewhere = {data.data(), data.size(),
                                                     reinterpret_cast<CUstream_st*>(16)};
    const ddp::P2POp streams[] = {ddp::P2POp::send(device, 1 - group.rank()),
                                  ddp::P2POp::recv(elsewhere, 1 - group.rank())};
    refused([&] { group.all_reduce(data, ReduceOp::avg); });
    refused([&] { group.broadcast(data, 99); });
    refused([&] { group.all_reduce(data, ddp::Buffer(device)); });
    refused([&] { group.batch_send_recv(mixture); });
    refused([&] { group.batch_send_recv(streams); });
    refused([&] { group.reduce(device, {}, 1 - group.rank()); });
    refused([&] { (void)group.ibroadcast(device); });
    const std::span<std::int32_t> endless(data.data(), std::size_t{0} - 1);
    refused([&] { group.all_reduce(endless); });
    refused([&] { group.all_gather(endless, endless); });
    refused([&] { (void)group.isend(endless, 1 - group.rank()); });
    const ddp::Buffer nowhere(nullptr, 4, ddp::DataType::int32);
    refused([&] { group.all_reduce(data, nowhere); });
    refused([&] { group.broadcast(nowhere); });
    refused([&] { group.send(nowhere, 1 - group.rank()); });
    group.all_reduce(data);  // the group is as good as before
    if (data[0] != group.size() * (group.size() - 1) / 2) wrong("sum after misuse");
  });
  for (const Ended& rank : ended) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    CHECK(contains(rank.output, "cannot take the avg of int32"));
    CHECK(contains(rank.output, "broadcast from rank 99, but ranks are 0 to 1"));
    CHECK(contains(rank.output, "all_reduce: in is in host memory, but out on a device"));
    CHECK(contains(rank.output, "batch_send_recv of buffers in host memory and on a device"));
    CHECK(contains(rank.output, "batch_send_recv of buffers with several streams"));
    for (const char* call : {"all_reduce", "all_gather", "send"}) {
      CHECK(contains(rank.output, std::string(call) + " of 18446744073709551615 elements"));
    }
    for (const char* call : {"all_reduce", "broadcast", "send"}) {
      CHECK(contains(rank.output, std::string(call) + " of a buffer whose address is null"));
    }
    if (is_over_mpi()) continue;  // MPI also moves data on devices
    CHECK(contains(rank.output, "reduce: backend cpu moves data in host memory only"));
    CHECK(contains(rank.output, "broadcast: backend cpu moves data in host memory only"));
    CHECK(contains(rank.output, "use init_process_group({.backend = \"nccl\"})"));
  }
}

TEST_CASE("buffers whose sizes do not fit together are refused by name", "[mpi]") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) {
    std::vector<float> four(4), three(3), two(2);
    refused([&] { group.all_reduce(four, three); });
    refused([&] { group.all_gather(two, three); });
    refused([&] { group.reduce_scatter(three, two); });
    refused([&] { group.all_to_all(four, three); });
    refused([&] { group.all_to_all(three, three); });
    group.all_to_all(four, four);  // the group is as good as before
  });
  for (const Ended& rank : ended) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    CHECK(contains(rank.output, "all_reduce needs 4 elements in out, which has 3"));
    CHECK(contains(rank.output, "all_gather needs 4 elements in out, which has 3"));
    CHECK(contains(rank.output, "reduce_scatter needs 4 elements in in, which has 3"));
    CHECK(contains(rank.output, "all_to_all needs 4 elements in out, which has 3"));
    CHECK(contains(rank.output, "all_to_all of 3 elements, which cannot be cut into equal blocks"));
  }
}

TEST_CASE("a wrong environment is refused with a hint") {
  const auto [name, value, expected] = GENERATE(table<std::string, std::string, std::string>({
      {"RANK", "", "RANK is not set: start the program with ddprun"},
      {"WORLD_SIZE", "", "WORLD_SIZE is not set"},
      {"MASTER_ADDR", "", "MASTER_ADDR is not set"},
      {"RANK", "one", "RANK=one is not a number from 0"},
      {"RANK", "2", "RANK=2 is not below WORLD_SIZE=2"},
      {"MASTER_PORT", "70000", "MASTER_PORT=70000 is not a number from 1 to 65535"},
  }));
  Variables variables = place(0, 2, 1);
  variables[name] = value;
  check_failure({Rank(rank_command(kJustMeet), variables).wait()}, ErrorKind::usage, {expected});
}

TEST_CASE(
    "a backend that is not installed or cannot be loaded is refused with the library's name") {
  const Folder folder;
  const std::filesystem::path library = build_path("lib/" DDP_LIBRARY);
  std::filesystem::copy_file(library, folder.path / library.filename());
  const bool broken = GENERATE(false, true);
  if (broken) std::ofstream(folder.path / "libddp_mpi.so") << "no library";
  check_failure(run_ranks(2, rank_command(kJustMeet),
                          {{"DDP_TEST_BACKEND", "mpi"}, {"LD_LIBRARY_PATH", folder.path.string()}}),
                ErrorKind::usage,
                {broken ? "backend mpi cannot be loaded: "
                        : "backend mpi is not installed here: there is no ",
                 "/libddp_mpi.so"});
}
