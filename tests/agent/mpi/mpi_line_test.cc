// SPDX-License-Identifier: Apache-2.0
#include "agent/mpi/mpi_line.h"

#include <csignal>
#include <string>
#include <utility>

#include "agent/mpi/mpi_hint.h"
#include "tests/catch.h"

using namespace ddprun;
using namespace ddprun::agent;

namespace {

constexpr int kExit = 256;  // as wait(2) has exit 1

/// "exit 3: called MPI_Abort(3)"; empty: MPI knows of no failure.
std::string failure(const MpiRank& rank, int wait_status, int world_size = 2) {
  const auto found = mpi_failure(rank, launcher::ExitStatus(wait_status), world_size);
  return found ? found->status.text() + ": " + found->cause : "";
}

}  // namespace

TEST_CASE("a rank that calls MPI_Abort fails with the code that it gave") {
  CHECK(failure({.called_init = true, .abort_code = 3}, 3 * kExit) ==
        "exit 3: called MPI_Abort(3)");
  CHECK(failure({.called_init = true, .abort_code = 3}, SIGKILL) == "exit 3: called MPI_Abort(3)");
  CHECK(failure({.called_init = true, .abort_code = 256}, 0) == "exit 1: called MPI_Abort(256)");
  CHECK(failure({.called_init = true, .abort_code = -1}, 0) == "exit 255: called MPI_Abort(-1)");
}

TEST_CASE("a rank that ends without MPI_Finalize has failed if others may wait for it") {
  CHECK(failure({.called_init = true}, 0) ==
        "exit 1: ended without MPI_Finalize, with exit code 0");
  CHECK(failure({.called_init = true}, 0, 1).empty());
  CHECK(failure({.called_init = true}, 7 * kExit).empty());
  CHECK(failure({.called_init = true}, SIGSEGV).empty());
  CHECK(failure({.called_init = true, .finalized = true}, 0).empty());
  CHECK(failure({}, 0).empty());
}

TEST_CASE("a library of MPI is found among the files that a process has mapped") {
  const std::string other = "7f00-7f01 r-xp 00000000 fe:00 123   /usr/lib/libc.so.6\n";
  const std::string mpi = "7f02-7f03 r-xp 00000000 fe:00 124   /opt/mpi/libmpi.so.40.30.4\n";
  CHECK(mpi_library_in(other + mpi + other) == "/opt/mpi/libmpi.so.40.30.4");
  CHECK(mpi_library_in(mpi.substr(0, mpi.size() - 1)) == "/opt/mpi/libmpi.so.40.30.4");
  CHECK(mpi_library_in(other).empty());
  CHECK(mpi_library_in("").empty());
}

TEST_CASE("ranks survive one that ends between MPI_Init and MPI_Finalize") {
  CHECK(is_survivable({.called_init = true}));
  CHECK_FALSE(is_survivable({}));
  CHECK_FALSE(is_survivable({.called_init = true, .finalized = true}));
  CHECK_FALSE(is_survivable({.called_init = true, .abort_code = 3}));
}

TEST_CASE("a question to an MpiServer is read as it is written") {
  for (const MpiQuestion question : {MpiQuestion::ended, MpiQuestion::lost}) {
    const std::string line = line_of(question, 12);
    CHECK(parse_mpi_question(line.substr(0, line.size() - 1), 13) == std::pair(question, 12));
    CHECK_FALSE(parse_mpi_question(line.substr(0, line.size() - 1), 12));
  }
  for (const char* wrong : {"", "e", "e ", "e -1", "e 1x", "x 1", "lost 1"}) {
    CHECK_FALSE(parse_mpi_question(wrong, 3));
  }
}

TEST_CASE("an order of an MpiServer is read as it is written") {
  MpiOrder order;
  order.mpi = Mpi::pmix;
  order.survives = true;
  order.program = "/bin/program";
  order.store = {"node0", 29500};
  order.layout.round = 2;
  order.layout.node_rank = 1;
  order.layout.node_count = 3;
  order.layout.first_rank = 4;
  order.layout.local_size = 2;
  order.layout.world_size = 8;
  order.sockets = {11, 13};
  auto words = arguments_of(order);
  REQUIRE(is_mpi_server(words));
  const auto read = order_of(words);
  REQUIRE(read);
  CHECK(arguments_of(*read) == words);
  words.pop_back();
  CHECK_FALSE(order_of(words));
  words.back() = "x";
  CHECK_FALSE(order_of(words));
  CHECK_FALSE(is_mpi_server(std::vector<std::string>{"--mpi_server", "a"}));
}
