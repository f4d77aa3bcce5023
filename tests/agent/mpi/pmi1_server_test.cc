// SPDX-License-Identifier: Apache-2.0
#include "agent/mpi/pmi1_server.h"

#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/must.h"

using namespace ddprun;
using namespace ddprun::agent;

namespace {

rendezvous::Layout node(int node_rank, int node_count, int local_size) {
  rendezvous::Layout layout;
  layout.round = 3;
  layout.node_rank = node_rank;
  layout.node_count = node_count;
  layout.first_rank = node_rank * local_size;
  layout.local_size = local_size;
  layout.world_size = node_count * local_size;
  return layout;
}

MpiNodes nodes(int node_count, int local_size) {
  return {"job_3", std::vector<int>(static_cast<size_t>(node_count), local_size), {}};
}

/// "0: cmd=...", a line each, of what the ranks are answered.
std::string answers(Pmi1Server& server) {
  std::string all;
  for (const auto& [rank, line] : server.take_replies()) {
    all += std::to_string(rank) + ": " + line;
  }
  return all;
}

std::string says(Pmi1Server& server, int rank, const std::string& line) {
  server.receive(rank, line + "\n");
  return answers(server);
}

std::string news(Pmi1Server& server) {
  std::string all;
  for (const MpiNews& each : server.take_news()) all += line_of(each);
  return all;
}

}  // namespace

TEST_CASE("a rank of PMI-1 finds its job as MPICH asks for it") {
  Pmi1Server server(node(0, 2, 2), nodes(2, 2));
  CHECK(says(server, 1, "cmd=init pmi_version=1 pmi_subversion=1") ==
        "1: cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n");
  CHECK(says(server, 1, "cmd=get_maxes") ==
        "1: cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n");
  CHECK(says(server, 1, "cmd=get_appnum") == "1: cmd=appnum rc=0 appnum=0\n");
  CHECK(says(server, 1, "cmd=get_my_kvsname") == "1: cmd=my_kvsname rc=0 kvsname=job_3\n");
  CHECK(says(server, 1, "cmd=get kvsname=job_3 key=PMI_process_mapping") ==
        "1: cmd=get_result rc=0 msg=success value=(vector,(0,2,2))\n");
  CHECK(says(server, 1, "cmd=get kvsname=job_3 key=PMI_hwloc_xmlfile") ==
        "1: cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
  CHECK(says(server, 1, "cmd=get_universe_size") == "1: cmd=universe_size rc=0 size=4\n");
  CHECK(says(server, 1, "cmd=finalize") == "1: cmd=finalize_ack rc=0\n");
  CHECK(news(server) == "i 1 0 \nf 1 0 \n");
}

TEST_CASE("keys of all nodes can be read after a barrier of all ranks") {
  Pmi1Server server(node(0, 2, 2), nodes(2, 2));
  CHECK(says(server, 0, "cmd=put kvsname=job_3 key=P0 value=a b=c") ==
        "0: cmd=put_result rc=0 msg=success\n");
  CHECK(says(server, 0, "cmd=barrier_in").empty());
  CHECK_FALSE(server.take_barrier());
  CHECK(says(server, 0, "cmd=barrier_in").empty());  // says it twice
  CHECK_FALSE(server.take_barrier());
  CHECK(says(server, 1, "cmd=barrier_in").empty());
  const auto puts = server.take_barrier();
  REQUIRE(puts);
  CHECK(*puts == "P0 a b=c\n");
  CHECK_FALSE(server.take_barrier());
  server.end_barrier(*puts + "P2 x\nP3 \n");
  CHECK(answers(server) == "0: cmd=barrier_out rc=0\n1: cmd=barrier_out rc=0\n");
  CHECK(says(server, 1, "cmd=get kvsname=job_3 key=P0") ==
        "1: cmd=get_result rc=0 msg=success value=a b=c\n");
  CHECK(says(server, 1, "cmd=get kvsname=job_3 key=P2") ==
        "1: cmd=get_result rc=0 msg=success value=x\n");
  server.receive(0, "cmd=barrier_in\n");
  server.receive(1, "cmd=barrier_in\n");
  CHECK(server.take_barrier() == std::string());
}

TEST_CASE("lines of PMI-1 may come in pieces") {
  Pmi1Server server(node(0, 1, 1), nodes(1, 1));
  for (const char c : std::string("cmd=get_appnum\ncmd=fin")) server.receive(0, {&c, 1});
  CHECK(answers(server) == "0: cmd=appnum rc=0 appnum=0\n");
  CHECK(says(server, 0, "alize") == "0: cmd=finalize_ack rc=0\n");
}

TEST_CASE("MPI_Abort is reported with its code") {
  Pmi1Server server(node(0, 1, 2), nodes(1, 2));
  CHECK(says(server, 1, "cmd=abort exitcode=3 error_msg=no").empty());
  CHECK(news(server) == "a 1 3 \n");
}

TEST_CASE("MPI_Comm_spawn is refused with a sentence") {
  Pmi1Server server(node(1, 2, 2), nodes(2, 2));
  for (const char* line : {"mcmd=spawn", "nprocs=1", "execname=./child", "cmd=put key=a"}) {
    CHECK(says(server, 1, line).empty());
  }
  CHECK(says(server, 1, "endcmd") == "1: cmd=spawn_result rc=-1 msg=not_served\n");
  CHECK(news(server) ==
        "w 1 0 rank 3 called MPI_Comm_spawn, which ddprun does not serve: start all ranks with "
        "--nproc_per_node\n");
  CHECK(says(server, 1, "cmd=publish_name service=s port=p") ==
        "1: cmd=publish_result rc=-1 info=not_served\n");
  CHECK(news(server) ==
        "w 1 0 rank 3 published or looked up a name (MPI_Publish_name, MPI_Comm_accept), which "
        "ddprun does not serve: all ranks are in MPI_COMM_WORLD\n");
  CHECK(says(server, 1, "cmd=get_appnum") == "1: cmd=appnum rc=0 appnum=0\n");
}

TEST_CASE("PMI-2 is refused, and its client told") {
  Pmi1Server server(node(0, 1, 1), nodes(1, 1));
  CHECK(says(server, 0, "cmd=init pmi_version=2 pmi_subversion=0") ==
        "0: cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1\n");
  CHECK(news(server).empty());
}

TEST_CASE("a rank that does not keep to PMI-1 is named and heard no more") {
  const std::string request =
      GENERATE(as<std::string>{}, "cmd=dance", "hello", "", "cmd=put kvsname=k key= value=v",
               "cmd=put kvsname=k key=" + std::string(65, 'k') + " value=v",
               "cmd=put kvsname=k key=k value=" + std::string(1025, 'v'), std::string(5000, 'x'));
  Pmi1Server server(node(1, 2, 2), nodes(2, 2));
  CHECK(says(server, 0, request).empty());
  CHECK(tests::contains(news(server), "x 0 0 rank 2 sent a request of PMI-1"));
  CHECK(says(server, 0, "cmd=get_appnum").empty());
  CHECK(says(server, 1, "cmd=get_appnum") == "1: cmd=appnum rc=0 appnum=0\n");
}

TEST_CASE("the keys that a node puts between two barriers are bounded") {
  Pmi1Server server(node(0, 1, 1), nodes(1, 1));
  const std::string put = "cmd=put key=k value=" + std::string(Pmi1Server::kMostValue, 'v');
  for (size_t all = 0; all < Pmi1Server::kMostPuts; all += Pmi1Server::kMostValue) {
    says(server, 0, put);
  }
  CHECK(tests::contains(news(server), "too many of them"));
}

TEST_CASE("nodes tell each other their numbers of ranks, in any order") {
  rendezvous::Layout layout = node(1, 3, 2);
  layout.world_size = 5;
  const auto mpi = must(parse_rows("2 4 1 x c\n0 0 2 x a\n1 2 2 y b\n", layout));
  CHECK(mpi.name == "ddprun_a_3");
  CHECK(mpi.local_sizes == std::vector{2, 2, 1});
  CHECK(mpi.hosts == std::vector<std::string>{"x_0", "y", "x_2"});
  CHECK(pmi1_mapping(mpi) == "(vector,(0,2,2),(2,1,1))");
  CHECK(row_of(node(1, 3, 2), "h", "t") == "1 2 2 h t\n");
  for (const char* wrong :
       {"", "0 0 2 x a\n1 2 2 y b\n", "0 0 2 x a\n1 2 2 y b\n1 4 1 x c\n",
        "0 0 2 x a\n1 2 2 y b\n2 4 2 x c\n", "0 0 2 x a\n1 3 2 y b\n2 4 1 x c\n",
        "0 0 2 x a\n1 2 2 y b\n2 4 1 x c\n3 5 1 z d\n"}) {
    CHECK(parse_rows(wrong, layout).error().code == Errc::protocol);
  }
}

TEST_CASE("files of killed ranks of MPICH have the round's name") {
  const MpiNodes mpi{"ddprun_7839216512602422893_0", {2, 2}, {}};
  CHECK(mpich_files(mpi, 1) ==
        std::vector<std::string>{"mpich_shm_ec26868_1", "mpich_vci_ec26868_1"});
}

TEST_CASE("news of MPI are read as they are written") {
  const MpiNews told{MpiNews::Kind::aborted, 2, -7, "with a text"};
  const auto read = parse_mpi_news("a 2 -7 with a text", 3);
  REQUIRE(read);
  CHECK(line_of(*read) == line_of(told));
  for (const char* wrong : {"", "a", "a 3 0 ", "a -1 0 ", "b 0 0 ", "a 0 ", "a 0 0", "a x 0 "}) {
    CHECK_FALSE(parse_mpi_news(wrong, 3));
  }
}
