// SPDX-License-Identifier: Apache-2.0
// How groups on devices are made, changed and given up, with the driver and the NCCL of fake_gpu/.

#include <nccl.h>

#include "ddp/error.h"
#include "ddp/tcp_store.h"
#include "store/wire.h"
#include "tests/catch.h"
#include "tests/collectives/backends/nccl/gpus.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"
#include "tests/paths.h"

using namespace ddprun::tests;
using ddp::ErrorKind;

namespace {

Words groups(const std::string& scenario) {
  return {program_path("device_groups"), scenario};
}

std::vector<Ended> run_groups(int size, const std::string& scenario, const Variables& more = {}) {
  return run_ranks(size, groups(scenario), on_gpu(more));
}

void check_groups(int size, const std::string& scenario) {
  for (const Ended& rank : run_groups(size, scenario)) {
    INFO(scenario << ": " << rank.output);
    CHECK(rank.code == 0);
  }
}

}  // namespace

TEST_CASE("NCCL's settings reach its communicators") {
  const auto first = run_groups(1, "configured", {{"FAKE_NCCL_TELL", "1"}});
  CHECK(first[0].output.starts_with("CGA 2, CTAs 3 to 4, network Socket\n"));
  const auto late = run_groups(1, "configured-late", {{"FAKE_NCCL_TELL", "1"}});
  CHECK(contains(late[0].output,
                 "shares 1, class 5, name weights, collnet 0, policy 1, NVLS 6, per peer 2, "
                 "NVLink 1, shrinks 1\n"));
}

TEST_CASE("a setting that the loaded NCCL does not know is refused") {
  const auto ended = run_groups(1, "configured-late", {{"FAKE_NCCL_VERSION", "22707"}});
  INFO(ended[0].output);
  CHECK(ended[0].code == failed(ErrorKind::usage));
  CHECK(ended[0].output ==
        "ddp: Options::nccl.channels_per_net_peer needs NCCL 2.28.0 or later, but this is "
        "2.27.7\n");
}

TEST_CASE("a setting of a later NCCL than libddp was built for is refused, or reaches NCCL") {
  const auto ended = run_groups(1, "configured-latest", {{"FAKE_NCCL_VERSION", "23007"}});
  INFO(ended[0].output);
  CHECK(ended[0].code ==
        (NCCL_VERSION_CODE < NCCL_VERSION(2, 29, 0) ? failed(ErrorKind::usage) : 0));
  if (ended[0].code == 0) return;
  CHECK(
      ended[0].output.starts_with("ddp: Options::nccl.graph_usage_mode needs NCCL 2.29.0 or "
                                  "later, but this is a libddp built for 2."));
}

TEST_CASE("ranks of a large group connect with several ids", "[gpu]") {
  const int size = GENERATE(2, 3, 4);
  if (!are_enough(size)) return;
  for (const Ended& rank : run_groups(size, "many-ids", {{"FAKE_NCCL_TELL", "1"}})) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    if (!is_real()) CHECK(contains(rank.output, "2 ids\n"));
  }
}

TEST_CASE("NCCL knows a group's memory: as a window, or of this rank alone before 2.27", "[gpu]") {
  const int size = GENERATE(1, 2, 4);
  const auto [version, words] = GENERATE(table<std::string, std::string>(
      {{"22807", "window 4000, 1\n"}, {"22605", "registered 4000\n"}}));
  if (!are_enough(size)) return;
  const Variables variables = {{"FAKE_NCCL_TELL", "1"}, {"FAKE_NCCL_VERSION", version}};
  for (const Ended& rank : run_groups(size, "memory", variables)) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    CHECK(contains(rank.output, "allocate: memory cannot be allocated in a group call\n"));
    if (!is_real()) CHECK(contains(rank.output, words));
  }
}

TEST_CASE("a failed allocation fails the call on all ranks, with the bytes") {
  for (const Ended& rank : run_groups(2, "memory", {{"FAKE_NCCL_FULL", "1"}})) {
    INFO(rank.output);
    CHECK(rank.code == failed(ErrorKind::system));
    CHECK(
        contains(rank.output, " failed in #1 allocate uint8[4000]: ncclMemAlloc of 4000 bytes: "));
  }
}

TEST_CASE("NCCL makes a group without one of its ranks, and before 2.27 the rest connects again",
          "[gpu]") {
  const int size = GENERATE(2, 3, 4);
  const std::string version = GENERATE("22807", "22605");
  if (!are_enough(size)) return;
  const auto ended =
      run_groups(size, "shrink", {{"FAKE_NCCL_TELL", "1"}, {"FAKE_NCCL_VERSION", version}});
  for (std::size_t rank = 0; rank < ended.size(); ++rank) {
    INFO(version << ": " << ended[rank].output);
    CHECK(ended[rank].code == 0);
    if (is_real()) continue;
    const bool shrinks = version == "22807" && size > 2;  // otherwise one rank is left
    const std::string words = "shrunk by 1 from " + std::to_string(size) + "\n";
    CHECK(contains(ended[rank].output, words) == (shrinks && rank + 1 < ended.size()));
  }
}

TEST_CASE("ranks on devices continue in a group without a dead rank", "[gpu]") {
  const int size = GENERATE(2, 3, 4);
  if (!are_enough(size)) return;
  check_groups(size, "survive");
}

TEST_CASE("an abort ends calls on a device, and their stream continues", "[gpu]") {
  const int size = GENERATE(1, 2, 4);
  if (!are_enough(size)) return;
  check_groups(size, "give-up");
}

TEST_CASE("a rank that gives the group up ends the wait for its first call on a device", "[gpu]") {
  const auto ended = run_groups(2, "abort-before-first-call");
  INFO(ended[0].output);
  CHECK(ended[0].code == failed(ErrorKind::system));
  CHECK(contains(ended[0].output, "ddp: rank 0 failed "));
  CHECK(contains(ended[0].output, ": rank 1 aborted the group"));
}

TEST_CASE("a rank reported as lost by the launcher ends the wait for its first call on a device") {
  LiveStore store;
  std::vector<Rank> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    Variables variables = on_gpu();
    variables.merge(place(rank, 2, store.port()));
    ranks.emplace_back(groups("lost-before-first-call"), variables);
  }
  ddp::TcpStore("127.0.0.1", store.port()).wait({"waits"});
  store.ring(ddprun::store::loss_text(1, "rank 1 on host n2 was killed by SIGKILL"));
  const Ended ended = ranks[0].wait();
  INFO(ended.output);
  CHECK(ended.code == failed(ErrorKind::peer_lost));
  CHECK(contains(ended.output, ": rank 1 on host n2 was killed by SIGKILL"));
}

TEST_CASE("ranks that move nothing in host memory are not connected for it", "[gpu]") {
  check_groups(4, "lazy-host");
  check_groups(3, "only-messages");
}

TEST_CASE("a rank that dies while others wait for its first call in host memory is named") {
  const auto ended = run_ranks(3, groups("lost-before-host"), on_gpu());
  for (const int rank : {0, 2}) {
    INFO(ended[rank].output);
    CHECK(ended[rank].code == failed(ErrorKind::peer_lost));
    CHECK(contains(ended[rank].output, "lost rank 1 while connecting: "));
  }
}

TEST_CASE("the wait for the first call in host memory obeys the present timeout") {
  const auto ended = run_ranks_but(1, 3, groups("late-host"), on_gpu());
  INFO(ended[0].output);
  CHECK(ended[0].code == failed(ErrorKind::timed_out));
  CHECK(contains(ended[0].output, "timed out after 1500 ms in #1 barrier"));
}
