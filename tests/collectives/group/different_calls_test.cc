// SPDX-License-Identifier: Apache-2.0
// Ranks of a group that make different calls.
#include <csignal>
#include <string>
#include <unistd.h>
#include <vector>

#include "ddp/process_group.h"
#include "tests/catch.h"
#include "tests/collectives/group/fail_for_good.h"
#include "tests/collectives/ranks.h"
#include "tests/collectives/stores/job_store.h"
#include "tests/contains.h"

using namespace ddprun::tests;
using ddp::ErrorKind;
using ddp::ProcessGroup;
using ddp::ReduceOp;

namespace {

using Elements = std::vector<float>;
using Counts = std::vector<std::size_t>;

/// A call that rank 1, the `odd` one, makes differently from the others.
struct DifferentCall {
  void (*make)(ProcessGroup& group, bool odd);
  Words texts;               ///< in every rank's error
  std::string of_four = {};  ///< more text with four ranks
};

const DifferentCall kDifferentCalls[] = {
    {[](ProcessGroup& group, bool odd) {
       Elements data(odd ? 101 : 100);
       group.all_reduce(data);
     },
     {"all_reduce sum float32[100]", "all_reduce sum float32[101]"},
     "; rank 1 is at #1 all_reduce sum float32[101], the others at #1 all_reduce sum float32[100]"},
    {[](ProcessGroup& group, bool odd) {
       Elements data(100);
       std::vector<double> doubles(100);
       odd ? group.all_reduce(doubles) : group.all_reduce(data);
     },
     {"all_reduce sum float32[100]", "all_reduce sum float64[100]"}},
    {[](ProcessGroup& group, bool odd) {
       Elements data(100);
       group.all_reduce(data, odd ? ReduceOp::max : ReduceOp::sum);
     },
     {"all_reduce sum float32[100]", "all_reduce max float32[100]"}},
    {[](ProcessGroup& group, bool odd) {
       Elements data(100);
       odd ? group.barrier() : group.all_reduce(data);
     },
     {"all_reduce sum float32[100]", "barrier"},
     "; rank 1 is at #1 barrier, the others at #1 all_reduce sum float32[100]"},
    {[](ProcessGroup& group, bool odd) { group.new_group(odd ? std::vector{0} : std::vector{1}); },
     {"makes a new_group of other ranks than rank"}},
    {[](ProcessGroup& group, bool odd) {
       const auto blocks = static_cast<std::size_t>(group.size());
       const Counts counts(blocks, 5);
       Elements all(5 * blocks);
       Counts sends = counts;
       if (odd) sends[0] = 4;
       Elements out(odd ? all.size() - 1 : all.size());
       group.all_to_all_v(out, sends, all, counts);
       group.barrier();  // a rank whose own blocks match fails here
     },
     {"all_to_all_v float32", "elements", "which", "rank 0", "rank 1"}},
    {[](ProcessGroup& group, bool odd) {
       Elements data(100);
       group.broadcast(data, odd ? 1 : 0);
     },
     {"broadcast float32[100] from rank 0", "broadcast float32[100] from rank 1"}},
    // A rank that need not wait in these calls may only find the difference in its next one.
    {[](ProcessGroup& group, bool odd) {
       static_cast<void>(group.broadcast(1.0F, odd ? 1 : 0));
       group.barrier();
     },
     {"broadcast float32[1] from rank 0", "broadcast float32[1] from rank 1"}},
    {[](ProcessGroup& group, bool odd) {
       static_cast<void>(group.reduce(1.0F, odd ? 0 : 1));
       group.barrier();
     },
     {"reduce sum float32[1] to rank 0", "reduce sum float32[1] to rank 1"}},
    {[](ProcessGroup& group, bool odd) {
       for (int call = 0; call < 3; ++call) static_cast<void>(group.broadcast(1));
       Elements data(odd ? 4 : 5);
       group.broadcast(data);
       for (int call = 0; call < 100; ++call) static_cast<void>(group.broadcast(1));
       group.barrier();
     },
     {"#4 broadcast float32[4] from rank 0", "#4 broadcast float32[5] from rank 0"}},
};

}  // namespace

TEST_CASE("calls that differ between ranks fail before data moves, with both names",
          "[mpi][tcp][nodes]") {
  const int call = any_of(kDifferentCalls);
  const int size = GENERATE(2, 4);
  // mpirun needs more than a second for each job.
  if (is_over_mpi() && size == 4 && kDifferentCalls[call].of_four.empty()) return;
  const auto ended = run_ranks(
      size,
      [](ProcessGroup& group, int number) {
        fail_for_good(group, [&] { kDifferentCalls[number].make(group, group.rank() == 1); });
      },
      call);
  check_failure(ended, ErrorKind::mismatch, kDifferentCalls[call].texts);
  if (size == 4) check_failure(ended, ErrorKind::mismatch, {kDifferentCalls[call].of_four});
}

TEST_CASE("if a rank sent in a different call and left, both calls are printed or thrown") {
  const int root = GENERATE(0, 1);  // the others' root: the odd rank sends, too, or nobody reads
  const auto ended = run_ranks(
      2,
      [](ProcessGroup& group, int of_others) {
        if (group.rank() == 0) {
          static_cast<void>(group.broadcast(1.0F, 0));
        } else if (of_others == 1) {
          static_cast<void>(group.broadcast(1.0F, 1));
        } else {
          fail_for_good(group, [&] { static_cast<void>(group.broadcast(1, 0)); });
        }
      },
      root);
  INFO(ended[0].output + ended[1].output);
  const std::string all = ended[0].output + ended[1].output;
  CHECK(ended[0].code == 0);
  CHECK(contains(all, "broadcast float32[1] from rank 0"));
  CHECK(contains(
      all, root == 1 ? "broadcast float32[1] from rank 1" : "broadcast int32[1] from rank 0"));
}

TEST_CASE("a last call that only one rank made, without a wait, is printed by the last to leave") {
  const bool sender_is_last = GENERATE(false, true);
  const auto ended = run_ranks(
      2,
      [](ProcessGroup& group, bool is_last) {
        static_cast<void>(group.broadcast(1, 0));
        const bool sends = group.rank() == 0;
        if (sends == is_last) job_store()->get("ddp/0/left/" + std::to_string(sends ? 1 : 0));
        if (sends) static_cast<void>(group.broadcast(2.0, 0));
      },
      sender_is_last);
  const std::string all = ended[0].output + ended[1].output;
  INFO(all);
  CHECK(ended[0].code == 0);
  CHECK(ended[1].code == 0);
  CHECK(contains(all, "is at #2 broadcast float64[1] from rank 0"));
  CHECK(contains(all, "has left the group"));
}

TEST_CASE("a different call is named as the only one, even if the others have left") {
  const auto ended = run_ranks(4, [](ProcessGroup& group) {
    if (group.rank() != 1) return static_cast<void>(group.broadcast(1.0F, 0));
    fail_for_good(group, [&] { static_cast<void>(group.broadcast(1, 0)); });
  });
  check_failure({ended[1]}, ErrorKind::mismatch,
                {"; rank 1 is at #1 broadcast int32[1] from rank 0, the others at #1 broadcast "
                 "float32[1] from rank 0"});
}

TEST_CASE("a different call is named as the only one, even if the others are dead or busy") {
  const auto ended = run_ranks(4, [](ProcessGroup& group) {
    const auto store = job_store();
    const bool is_odd = group.rank() == 1;
    if (is_odd) store->wait({"called/0", "called/2", "called/3"});
    try {
      is_odd ? static_cast<void>(group.broadcast(1, 0))
             : static_cast<void>(group.broadcast(1.0F, 0));
    } catch (const ddp::Error&) {
      store->set("failed", "");
      throw;
    }
    store->set("called/" + std::to_string(group.rank()), "");
    if (group.rank() == 0) std::raise(SIGKILL);
    store->get("failed");
    group.barrier();
  });
  CHECK(ended[0].code == 128 + SIGKILL);
  const std::string odd =
      "; rank 1 is at #1 broadcast int32[1] from rank 0, the others at #1 broadcast float32[1] "
      "from rank 0";
  check_failure({ended[1], ended[2], ended[3]}, ErrorKind::mismatch, {odd});
}

TEST_CASE("a rank in a message fails by the others' different calls, and says where it is") {
  const auto ended = run_ranks(3, [](ProcessGroup& group) {
    const auto store = job_store();
    try {
      if (group.rank() == 0) group.barrier();
      if (group.rank() == 1) static_cast<void>(group.all_reduce(1));
      if (group.rank() == 2) static_cast<void>(group.recv<int>(0));
    } catch (const ddp::Error&) {
      check(store->check({"ddp/0/statuses/2"}), "rank 2 has not said where it is");
      throw;
    }
  });
  check_failure(ended, ErrorKind::mismatch, {"#1 barrier", "#1 all_reduce sum int32[1]"});
}

TEST_CASE("a rank that leaves early is reported as having left the group", "[tcp][nodes]") {
  const auto ended = run_ranks(3, [](ProcessGroup& group) {
    if (group.rank() != 1) fail_for_good(group, [&] { group.barrier(); });
  });
  check_failure({ended[0], ended[2]}, ErrorKind::left,
                {"lost rank 1 in #1 barrier: it has left the group"});
}

TEST_CASE("the others' wait for a rank that never makes the call ends, and they name it",
          "[mpi][nodes]") {
  const int size = GENERATE(2, 4);
  const Words command = rank_command([](ProcessGroup& group) {
    if (group.rank() == 1) ::pause();
    fail_for_good(group, [&] { group.barrier(); });
  });
  check_failure(run_ranks_but(1, size, command, kImpatient), ErrorKind::timed_out,
                {"timed out after 1500 ms in #1 barrier: rank 1 is in no call yet"});
}
