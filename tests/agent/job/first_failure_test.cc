// SPDX-License-Identifier: Apache-2.0
#include "agent/job/first_failure.h"

#include <string>

#include "tests/catch.h"

namespace ddprun::agent {
namespace {

rendezvous::Failure failed(int rank, const std::string& stderr_tail) {
  rendezvous::Failure failure;
  failure.rank = rank;
  failure.pid = 100 + rank;
  failure.wait_status = 1 << 8;
  failure.stderr_tail = stderr_tail;
  return failure;
}

rendezvous::Failure lost_peer(int rank) {
  return failed(rank, "what():  all_reduce failed: lost rank 2\n");
}

rendezvous::Failure own_cause(int rank) {
  return failed(rank, "loss is nan\n");
}

int rank_of(const std::optional<rendezvous::Failure>& reported) {
  return reported ? reported->rank : -1;
}

TEST_CASE("only the first failure with a cause of its own is reported") {
  FirstFailure failures;
  CHECK(failures.ended() == 0);
  CHECK(rank_of(failures.examined(0, own_cause(3))) == 3);
  CHECK(failures.ended() == 1);
  CHECK(rank_of(failures.examined(1, own_cause(4))) == -1);
  CHECK(rank_of(failures.give_up()) == -1);
}

TEST_CASE("a failure that mentions a lost peer waits for one with a cause of its own") {
  FirstFailure failures;
  CHECK_FALSE(failures.waits_for_cause());
  failures.ended();
  CHECK_FALSE(failures.waits_for_cause());
  CHECK(rank_of(failures.examined(0, lost_peer(0))) == -1);
  CHECK(failures.waits_for_cause());
  failures.ended();
  CHECK(rank_of(failures.examined(1, lost_peer(1))) == -1);
  failures.ended();
  CHECK(rank_of(failures.examined(2, own_cause(2))) == 2);
  CHECK_FALSE(failures.waits_for_cause());
}

TEST_CASE("an abort by which Open MPI reports a lost rank waits for that rank's own failure") {
  FirstFailure failures;
  rendezvous::Failure aborted = failed(0, "");
  aborted.cause = "called MPI_Abort(14)";
  failures.ended();
  CHECK(rank_of(failures.examined(0, aborted)) == -1);
  CHECK_FALSE(is_consequence(aborted));  // ddprun looks for no other rank to blame
  rendezvous::Failure first = failed(2, "");
  first.cause = "called MPI_Abort(3)";
  failures.ended();
  CHECK(rank_of(failures.examined(1, first)) == 2);
}

TEST_CASE("if no failure has a cause of its own, the first that ended is reported") {
  FirstFailure failures;
  failures.ended();
  failures.ended();
  CHECK(rank_of(failures.examined(1, lost_peer(1))) == -1);
  CHECK_FALSE(failures.waits_for_cause());  // it waits for the files of the first
  CHECK(rank_of(failures.examined(0, lost_peer(0))) == -1);
  CHECK(rank_of(failures.give_up()) == 0);
  CHECK(rank_of(failures.give_up()) == -1);
  failures.ended();
  CHECK(rank_of(failures.examined(2, own_cause(2))) == -1);
}

TEST_CASE("failures are ordered by their ends, not by the reading of their files") {
  FirstFailure failures;
  failures.ended();
  failures.ended();
  CHECK(rank_of(failures.examined(1, own_cause(1))) == -1);
  CHECK(rank_of(failures.examined(0, own_cause(0))) == 0);
  failures.clear();
  failures.ended();
  failures.ended();
  CHECK(rank_of(failures.examined(1, own_cause(1))) == -1);
  CHECK(rank_of(failures.examined(0, lost_peer(0))) == 1);
}

}  // namespace
}  // namespace ddprun::agent
