// SPDX-License-Identifier: Apache-2.0
// ProcessGroup::abort() and shrink().
#include <csignal>
#include <numeric>
#include <thread>
#include <vector>

#include "ddp/process_group.h"
#include "tests/catch.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"

using namespace ddprun::tests;
using ddp::ErrorKind;
using ddp::ProcessGroup;

namespace {

std::vector<float> own_data(const ProcessGroup& group) {
  return std::vector<float>(20'000, static_cast<float>(group.rank()));
}

/// Checks that all ranks of `rest` are there, and that it is a whole group: parts, objects,
/// messages.
void check_works(ProcessGroup& rest, const std::vector<int>& whole, const std::string& own) {
  check(rest.size() == std::ssize(whole), "a group of " + std::to_string(rest.size()));
  std::vector<float> data = own_data(rest);
  rest.all_reduce(data);
  const float sum = static_cast<float>(rest.size() * (rest.size() - 1)) / 2;
  check(data == std::vector<float>(data.size(), sum), "a sum of the rest");
  const auto objects = rest.all_gather_object(own);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    check(objects[i] == std::to_string(whole[i]), "the order of the rest");
  }
  auto part = rest.split(0, -rest.rank());
  check(part->rank() == rest.size() - 1 - rest.rank(), "a part of the rest");
}

std::vector<int> all_but(int excluded, int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::erase(ranks, excluded);
  return ranks;
}

/// Rank 1 dies in the middle of calls.
void call_until_lost(ProcessGroup& group) {
  std::vector<float> data = own_data(group);
  try {
    for (int call = 0;; ++call) {
      group.all_reduce(data);
      if (group.rank() == 1 && call == 5) std::raise(SIGKILL);
    }
  } catch (const ddp::Error& error) {
    check(error.kind() == ErrorKind::peer_lost, error.what());
    check(error.lost_ranks() == std::vector{1}, "the lost ranks");
  }
}

}  // namespace

TEST_CASE("ranks continue in a group without a killed rank", "[tcp][nodes]") {
  const int size = GENERATE(2, 3, 4);
  const auto ended = run_ranks(size, [](ProcessGroup& group) {
    call_until_lost(group);
    const std::string own = std::to_string(group.rank());
    ProcessGroup rest = group.shrink();
    check_works(rest, all_but(1, group.size()), own);
  });
  for (int rank = 0; rank < size; ++rank) {
    INFO(ended[rank].output);
    CHECK(ended[rank].code == (rank == 1 ? 128 + SIGKILL : 0));
  }
}

TEST_CASE("ranks continue in a group without a living rank, whose calls then fail") {
  const int size = GENERATE(2, 3, 4);
  for (const Ended& rank : run_ranks(size, [](ProcessGroup& group) {
         const int last = group.size() - 1;
         group.barrier();
         if (group.rank() == last) return group.barrier();
         const std::string own = std::to_string(group.rank());
         const std::vector<int> excluded = {last};
         ProcessGroup first = group.shrink(excluded);
         check_works(first, all_but(last, group.size()), own);
         ProcessGroup same = first.shrink({});
         check_works(same, all_but(last, group.size()), own);
         group.barrier();
       })) {
    INFO(rank.output);
    CHECK(rank.code == failed(ErrorKind::system));
    CHECK(contains(rank.output, " went on in a smaller group\n"));
  }
}

TEST_CASE("parts of a group stay usable when it shrinks, also with excluded ranks", "[nodes]") {
  const int size = 4;
  for (const Ended& rank : run_ranks(size, [](ProcessGroup& group) {
         auto pair = group.split(group.rank() / 2, group.rank());
         auto later = group.split(group.rank() % 2, group.rank());  // makes no call before
         const auto check_parts = [&](int first) {
           std::vector<float> data = own_data(group);
           pair->all_reduce(data);
           check(data.front() == static_cast<float>(first), "a sum of a part");
           later->barrier();
         };
         const int own_pair = group.rank() / 2 == 0 ? 1 : 5;
         if (group.rank() == 3) return check_parts(own_pair);
         const std::string own = std::to_string(group.rank());
         const std::vector<int> excluded = {3};
         ProcessGroup rest = group.shrink(excluded);
         check_parts(own_pair);
         check_works(rest, all_but(3, size), own);
       })) {
    INFO(rank.output);
    CHECK(rank.code == 0);
  }
}

TEST_CASE("an abort ends the calls of other threads and ranks, which name the rank",
          "[tcp][nodes]") {
  const int size = GENERATE(1, 2, 3, 4);
  for (const Ended& rank : run_ranks(size, [](ProcessGroup& group) {
         group.barrier();
         std::vector<float> data(1);
         if (group.rank() > 0) return group.recv(data, 0);
         std::thread other([&] {
           if (group.size() == 1) return;
           try {
             group.barrier();
             wrong("a barrier of less than all ranks");
           } catch (const ddp::Error& error) {
             check(contains(error.what(), "rank 0 aborted the group"), error.what());
           }
         });
         group.abort();
         other.join();
         group.barrier();
       })) {
    INFO(rank.output);
    CHECK(rank.code == failed(ErrorKind::system));
    CHECK(contains(rank.output, "rank 0 aborted the group\n"));
  }
}

TEST_CASE("a shrink that excludes an invalid rank is refused, and the group stays as it was",
          "[mpi]") {
  check_ranks(2, [](ProcessGroup& group) {
    const std::vector<int> wrong_ones[] = {
        {2}, {-1}, {group.rank()}, {1 - group.rank(), 1 - group.rank()}};
    for (const auto& excluded : wrong_ones) refused([&] { (void)group.shrink(excluded); });
    group.barrier();
  });
}

TEST_CASE("the error names ranks that do not come to a smaller group") {
  const auto ended = run_ranks_but(2, 3, rank_command([](ProcessGroup& group) {
                                     group.barrier();
                                     if (group.rank() == 2) ::pause();
                                     const std::vector<int> excluded = {1};
                                     if (group.rank() == 0) (void)group.shrink(excluded);
                                   }),
                                   kImpatient);
  INFO(ended[0].output);
  CHECK(ended[0].code == failed(ErrorKind::timed_out));
  CHECK(contains(ended[0].output, "rank 2 did not join within 1500 ms"));
}
