// SPDX-License-Identifier: Apache-2.0
// Which device a group uses, and what must not be asked of NCCL and the driver. fake_gpu/'s
// versions refuse it as the real ones do or may.

#include "ddp/error.h"
#include "tests/catch.h"
#include "tests/collectives/backends/nccl/gpus.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"
#include "tests/paths.h"

using namespace ddprun::tests;
using ddp::ErrorKind;

namespace {

Words places(const std::string& scenario) {
  return {program_path("device_places"), scenario};
}

std::vector<Ended> run_places(int size, const std::string& scenario, const Variables& more = {}) {
  return run_ranks(size, places(scenario), on_gpu(more));
}

void check_places(int size, const std::string& scenario, const Variables& more = {}) {
  for (const Ended& rank : run_places(size, scenario, more)) {
    INFO(scenario << ": " << rank.output);
    CHECK(rank.code == 0);
  }
}

}  // namespace

TEST_CASE("a program that uses no GPU may fork a child that does", "[gpu]") {
  check_places(1, "host-only");
}

TEST_CASE("a group is on the device of its first buffers", "[gpu]") {
  if (!are_enough(2)) return;
  check_places(2, "first-call");
}

TEST_CASE("buffers and streams of another device are refused, and the group stays as it was",
          "[gpu]") {
  if (!are_enough(2)) return;
  for (const Ended& rank : run_places(2, "elsewhere")) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    CHECK(contains(rank.output, ": all_reduce: in is on GPU "));
    CHECK(contains(rank.output, ": all_reduce: out is on GPU "));
    CHECK(contains(rank.output, ": send: what it sends is on GPU "));
    CHECK(contains(rank.output, ": all_reduce: the stream is on GPU "));
  }
}

TEST_CASE("memory of no GPU is refused as a buffer on a device") {
  const auto ended = run_places(2, "elsewhere");
  CHECK(
      contains(ended[0].output,
               "ddp: rank 0: all_reduce: in is passed with a stream, but is in no GPU's memory\n"));
}

TEST_CASE("ranks that name their devices are connected at once", "[gpu]") {
  if (!are_enough(2)) return;
  for (const Ended& rank : run_places(2, "eager")) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    CHECK(contains(rank.output, "ddp: device 99, but devices are 0 to "));
    CHECK(contains(rank.output, "ddp: Options::device 0 needs backend nccl, not cpu\n"));
  }
}

TEST_CASE("parts of a group whose ranks name their devices are connected through it", "[gpu]") {
  if (!are_enough(3)) return;
  const auto ended = run_places(3, "parts", {{"FAKE_NCCL_TELL", "1"}});
  const std::string expected[] = {"split 2 1\nsplit -1 0\n", "split -1 0\nsplit 2 1\n",
                                  "split 2 0\nsplit 2 0\n"};
  for (std::size_t rank = 0; rank < ended.size(); ++rank) {
    INFO(ended[rank].output);
    CHECK(ended[rank].code == 0);
    if (!is_real()) CHECK(ended[rank].output.ends_with(expected[rank]));
  }
}

TEST_CASE("a call comes after calls in other streams, also of threads or destroyed", "[gpu]") {
  if (!are_enough(2)) return;
  check_places(2, "passing-streams");
}

TEST_CASE("a call that NCCL launches soon does not put its thread to sleep") {
  check_places(1, "spin");
}

TEST_CASE("the wait for the first call on a device obeys the group's present timeout") {
  const auto ended = run_ranks_but(1, 2, places("impatient"), on_gpu());
  INFO(ended[0].output);
  CHECK(ended[0].code == failed(ErrorKind::timed_out));
  CHECK(contains(ended[0].output, "timed out after 1500 ms in #1 all_reduce sum float32[1000]"));
}

TEST_CASE("an NCCL that blocks the caller of a call leads to exit code 124") {
  const LiveStore store;
  const Variables variables = on_gpu({{"FAKE_NCCL_BLOCK", "0:3"}});
  const auto start = [&](int rank) {
    Variables all = variables;
    all.merge(place(rank, 2, store.port()));
    return Rank({program_path("device_places"), "calls", "1500"}, all);
  };
  const Rank other = start(1);
  const Ended ended = start(0).wait();
  INFO(ended.output);
  CHECK(ended.code == 124);
  CHECK(contains(ended.output, " in #2 all_reduce sum float32[1000]"));
}

TEST_CASE("an NCCL that does not return while ranks or parts connect leads to exit code 124") {
  const LiveStore store;
  const LiveStore other_store;
  const auto start = [](int rank, const LiveStore& of, const std::string& stuck) {
    Variables all = on_gpu({{"FAKE_NCCL_STUCK", stuck}, {"NCCL_COMM_BLOCKING", "1"}});
    all.merge(place(rank, 2, of.port()));
    return Rank({program_path("device_places"), "connect", "1500"}, all);
  };
  const Rank first = start(0, store, "1");
  const Rank first_of_part = start(0, other_store, "part:1");
  Rank stuck = start(1, store, "1");
  Rank stuck_in_part = start(1, other_store, "part:1");
  for (Rank* const rank : {&stuck, &stuck_in_part}) {
    const Ended ended = rank->wait();
    const std::string what = rank == &stuck ? "while" : "while a part of the group";
    INFO(ended.output);
    CHECK(ended.code == 124);
    CHECK(
        contains(ended.output, "ddp: rank 1 timed out after 1500 ms waiting for the other ranks " +
                                   what + (rank == &stuck ? " connecting" : " connects") +
                                   " through NCCL. NCCL did not return within another 5 s: "
                                   "ending the process\n"));
  }
}

TEST_CASE("a failure while a graph has calls of the group leads to exit code 124") {
  const LiveStore store;
  const auto start = [&](int rank) {
    return Rank({program_path("device_places"), "keep-graph", "5000"},
                on_gpu(place(rank, 2, store.port())));
  };
  const Rank other = start(1);
  const Ended ended = start(0).wait();
  INFO(ended.output);
  CHECK(ended.code == 124);
  CHECK(contains(ended.output, "lost another rank in #2 all_reduce sum float32[1000]"));
}

TEST_CASE("an exception while a graph has calls of the group leads to exit code 124") {
  const auto ended = run_ranks(1, {program_path("device_places"), "throw-beside-graph"}, on_gpu());
  INFO(ended[0].output);
  CHECK(ended[0].code == 124);
  CHECK(
      contains(ended[0].output, "calls under way did not end within 5 s after they were aborted"));
}

TEST_CASE("an NCCL that is too old is refused") {
  const auto ended = run_places(1, "calls", {{"FAKE_NCCL_VERSION", "22203"}});
  INFO(ended[0].output);
  CHECK(ended[0].code == failed(ErrorKind::usage));
  CHECK(contains(ended[0].output, "libnccl.so.2) is too old: ddp needs 2.23.0 or later\n"));
}

TEST_CASE("ranks that choose different backends get an error that says so") {
  const LiveStore store;
  Variables nccl = on_gpu(place(0, 2, store.port()));
  Variables host = on_gpu(place(1, 2, store.port()));
  host["CUDA_VISIBLE_DEVICES"] = "";
  Rank other(places("host-only"), host);
  Rank first(places("host-only"), nccl);
  for (Rank* rank : {&first, &other}) {
    const Ended ended = rank->wait();
    INFO(ended.output);
    CHECK(ended.code == failed(ErrorKind::mismatch));
    CHECK(contains(ended.output,
                   ": ranks do not agree on the backend: nccl on rank 0, cpu on rank 1"));
  }
}
