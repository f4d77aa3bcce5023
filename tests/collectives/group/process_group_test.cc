// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>

#include "ddp/error.h"
#include "store/client.h"
#include "tests/catch.h"
#include "tests/collectives/folder.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"
#include "tests/must.h"
#include "tests/unused_port.h"

using namespace std::chrono_literals;
using namespace ddprun::tests;
using ddp::ErrorKind;
using StoreClient = ddprun::store::Client;

namespace {

constexpr const char* kShortMs = "1500";  // milliseconds

std::vector<std::string> worker(const std::string& scenario,
                                const std::optional<std::string>& timeout = {}) {
  std::vector<std::string> command = {DDPRUN_BIN "/ddp_worker", scenario};
  if (timeout) command.push_back(*timeout);
  return command;
}

}  // namespace

TEST_CASE("every operation gives every type's right result at every size of group") {
  const int size = GENERATE(1, 2, 3, 4);
  for (const Ended& rank : run_ranks(size, worker("all"))) {
    INFO(size << " ranks: " << rank.output);
    CHECK(rank.code == 0);
  }
}

TEST_CASE("calls in quick succession keep to their order") {
  for (const Ended& rank : run_ranks(3, worker("hurry"))) {
    INFO(rank.output);
    CHECK(rank.code == 0);
  }
}

TEST_CASE("two groups of the same ranks do not disturb each other") {
  for (const Ended& rank : run_ranks(3, worker("two-groups"))) {
    INFO(rank.output);
    CHECK(rank.code == 0);
  }
}

TEST_CASE("a group is parted, parts are parted, and ranks leave them in any order") {
  const int size = GENERATE(2, 3, 5);
  for (const Ended& rank : run_ranks(size, worker("parts"))) {
    INFO(size << " ranks: " << rank.output);
    CHECK(rank.code == 0);
  }
}

TEST_CASE("two threads use two groups at once") {
  for (const Ended& rank : run_ranks(3, worker("threads"))) {
    INFO(rank.output);
    CHECK(rank.code == 0);
  }
}

TEST_CASE("byte strings of any length are broadcast and gathered") {
  const int size = GENERATE(1, 2, 4);
  for (const Ended& rank : run_ranks(size, worker("objects"))) {
    INFO(size << " ranks: " << rank.output);
    CHECK(rank.code == 0);
  }
}

TEST_CASE("without a launcher's store rank 0 serves it, and ranks may come before it") {
  const std::uint16_t port = unused_port();
  std::vector<Rank> ranks;
  for (int rank = 2; rank >= 0; --rank) {
    Variables variables = place(rank, 3, port);
    variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
    ranks.emplace_back(worker("two-groups"), variables);
  }
  for (Rank& rank : ranks) {
    const Ended ended = rank.wait();
    INFO(ended.output);
    CHECK(ended.code == 0);
  }
}

TEST_CASE("a rank killed in the middle of a call fails the others, who name it") {
  const int size = GENERATE(2, 4);
  const std::string call =
      GENERATE(as<std::string>(), "small", "large", "broadcast", "reduce", "gather", "gather_v",
               "all_gather", "all_gather_v", "scatter", "scatter_v", "reduce_scatter",
               "reduce_scatter_v", "all_to_all", "all_to_all_v", "barrier", "send", "part");
  const auto ended = run_ranks(size, worker("die-" + call));
  CHECK(ended[1].code == 128 + 9);
  for (int rank = 0; rank < size; ++rank) {
    if (rank == 1) continue;
    INFO(ended[rank].output);
    CHECK(ended[rank].code == failed(ErrorKind::peer_lost));
    CHECK(contains(ended[rank].output, "lost rank 1 in "));
  }
}

TEST_CASE("a rank killed while others connect to it fails them, and they name it") {
  const int size = GENERATE(2, 4);
  const LiveStore store;
  std::vector<Rank> ranks;
  for (int rank = 1; rank < size; ++rank) {
    ranks.emplace_back(worker("all"), place(rank, size, store.port()));
  }
  auto client = must(StoreClient::connect("127.0.0.1", store.port(), 20s, 20s));
  must(client.wait({"/ddp/0/joined/1"}, 20s));
  ranks[0].kill();
  CHECK(ranks[0].wait().code == 128 + 9);  // while it waited for rank 0
  ranks.emplace_back(worker("all"), place(0, size, store.port()));
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    const Ended ended = ranks[i].wait();
    INFO(ended.output);
    CHECK(ended.code == failed(ErrorKind::peer_lost));
    CHECK(contains(ended.output, "lost rank 1 while connecting"));
  }
}

TEST_CASE("a killed rank 0 is named even if it served the store") {
  const std::uint16_t port = unused_port();
  std::vector<Rank> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    Variables variables = place(rank, 4, port);
    variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
    ranks.emplace_back(worker("die-first"), variables);
  }
  for (int rank = 0; rank < 4; ++rank) {
    const Ended ended = ranks[rank].wait();
    INFO(ended.output);
    CHECK(ended.code == (rank == 0 ? 128 + 9 : failed(ErrorKind::peer_lost)));
    CHECK((rank == 0 || contains(ended.output, "rank 0")));
  }
}

TEST_CASE("a rank that throws in between fails the others, who name it") {
  const auto ended = run_ranks(3, worker("throw"));
  CHECK(ended[1].code == 2);
  CHECK(contains(ended[1].output, "thrown by the program"));
  for (int rank : {0, 2}) {
    INFO(ended[rank].output);
    CHECK(ended[rank].code == failed(ErrorKind::peer_lost));
    CHECK(contains(ended[rank].output, "lost rank 1"));
  }
}

TEST_CASE("calls that differ between ranks are told before anything moves") {
  const auto [how, calls] = GENERATE(table<std::string, std::vector<std::string>>({
      {"count", {"all_reduce sum float32[100]", "all_reduce sum float32[101]"}},
      {"type", {"all_reduce sum float32[100]", "all_reduce sum float64[100]"}},
      {"reduction", {"all_reduce sum float32[100]", "all_reduce max float32[100]"}},
      {"operation", {"all_reduce sum float32[100]", "barrier"}},
      {"list", {"makes a new_group of other ranks than rank"}},
      {"counts", {"all_to_all_v float32", "elements", "which", "rank 0", "rank 1"}},
      {"root", {"broadcast float32[100] from rank 0", "broadcast float32[100] from rank 1"}},
  }));
  const int size = GENERATE(2, 4);
  for (const Ended& rank : run_ranks(size, worker("differ-" + how))) {
    INFO(size << " ranks: " << rank.output);
    CHECK(rank.code == failed(ErrorKind::mismatch));
    for (const std::string& call : calls) CHECK(contains(rank.output, call));
  }
}

TEST_CASE("a rank that leaves early is told apart from one that died") {
  const auto ended = run_ranks(3, worker("leave-early"));
  for (int rank : {0, 2}) {
    INFO(ended[rank].output);
    CHECK(ended[rank].code == failed(ErrorKind::mismatch));
    CHECK(contains(ended[rank].output, "the group's end"));
  }
}

TEST_CASE("a rank that never makes the call ends the others' wait, and they name it") {
  const int size = GENERATE(2, 4);
  const LiveStore store;
  std::vector<Rank> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back(worker("never-come", kShortMs), place(rank, size, store.port()));
  }
  for (int rank = 0; rank < size; ++rank) {
    if (rank == 1) continue;
    const Ended ended = ranks[rank].wait();
    INFO(ended.output);
    CHECK(ended.code == failed(ErrorKind::timed_out));
    CHECK(contains(ended.output, "waited 1500 ms in vain in #1 barrier: rank 1 is in no call yet"));
  }
}

TEST_CASE("ranks that do not join are named") {
  const LiveStore store;
  Rank first(worker("all", kShortMs), place(0, 4, store.port()));
  Rank third(worker("all", kShortMs), place(2, 4, store.port()));
  for (Rank* rank : {&first, &third}) {
    const Ended ended = rank->wait();
    INFO(ended.output);
    CHECK(ended.code == failed(ErrorKind::timed_out));
    CHECK(contains(ended.output, "ranks 1 and 3 did not join within 1500 ms"));
  }
}

TEST_CASE("a store that is not there is named") {
  const std::uint16_t port = unused_port();
  const Ended ended = Rank(worker("all", kShortMs), place(1, 2, port)).wait();
  INFO(ended.output);
  CHECK(ended.code == failed(ErrorKind::timed_out));
  CHECK(contains(ended.output, "cannot reach the store at 127.0.0.1:" + std::to_string(port)));
  CHECK(contains(ended.output, "Connection refused"));
}

TEST_CASE("wrong arguments are refused and leave the group as it was") {
  for (const Ended& rank : run_ranks(2, worker("misuse"))) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    CHECK(contains(rank.output, "cannot take the avg of int32"));
    CHECK(contains(rank.output, "broadcast from rank 99, but ranks are 0 to 1"));
    CHECK(contains(rank.output, "all_reduce: in is in host memory, but out on a device"));
    CHECK(contains(rank.output, "batch_send_recv of buffers in host memory and on a device"));
    for (const char* call : {"all_reduce", "all_gather", "send"}) {
      CHECK(contains(rank.output, std::string(call) + " of 18446744073709551615 elements"));
    }
    CHECK(contains(rank.output, "reduce: backend gloo moves data in host memory only"));
    CHECK(contains(rank.output, "broadcast: backend gloo moves data in host memory only"));
    CHECK(contains(rank.output, "it takes init_process_group({.backend = \"nccl\"})"));
  }
}

TEST_CASE("a wrong environment is refused with what would be right") {
  const auto [name, value, told] = GENERATE(table<std::string, std::string, std::string>({
      {"RANK", "", "RANK is not set: start the program with ddprun"},
      {"WORLD_SIZE", "", "WORLD_SIZE is not set"},
      {"MASTER_ADDR", "", "MASTER_ADDR is not set"},
      {"RANK", "one", "RANK=one is not a number from 0"},
      {"RANK", "2", "RANK=2 is not below WORLD_SIZE=2"},
      {"MASTER_PORT", "70000", "MASTER_PORT=70000 is not a number from 1 to 65535"},
  }));
  Variables variables = place(0, 2, 1);
  variables[name] = value;
  const Ended ended = Rank(worker("all"), variables).wait();
  INFO(ended.output);
  CHECK(ended.code == failed(ErrorKind::usage));
  CHECK(contains(ended.output, told));
}

TEST_CASE("a backend that is not installed, or cannot be loaded, is told with what is missing") {
  const Folder folder;
  const std::filesystem::path library = DDPRUN_LIB;
  std::filesystem::copy_file(library, folder.path / library.filename());
  const bool broken = GENERATE(false, true);
  if (broken) std::ofstream(folder.path / "libddp_mpi.so") << "no library";
  const Variables over_mpi = {{"DDP_TEST_BACKEND", "mpi"},
                              {"LD_LIBRARY_PATH", folder.path.string()}};
  for (const Ended& rank : run_ranks(2, worker("all"), over_mpi)) {
    INFO(rank.output);
    CHECK(rank.code == failed(ErrorKind::usage));
    CHECK(contains(rank.output, broken ? "backend mpi cannot be loaded: "
                                       : "backend mpi is not installed here: there is no "));
    CHECK(contains(rank.output, "/libddp_mpi.so"));
  }
}
