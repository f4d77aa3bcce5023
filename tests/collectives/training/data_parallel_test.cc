// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "ddp/error.h"
#include "tests/catch.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"

using namespace ddprun::tests;

namespace {

std::vector<Ended> train(int size, const std::string& scenario, const std::string& argument = "") {
  return run_ranks(size, {DDPRUN_BIN "/ddp_data_parallel", scenario, argument});
}

void check_well(int size, const std::string& scenario, const std::string& argument = "") {
  for (const Ended& rank : train(size, scenario, argument)) {
    INFO(size << " ranks, " << scenario << " " << argument << ": " << rank.output);
    CHECK(rank.code == 0);
    CHECK(rank.output.empty());
  }
}

}  // namespace

TEST_CASE("gradients are averaged, whatever the buckets and the order they are ready in") {
  const int size = GENERATE(1, 2, 3, 5);
  check_well(size, "random", std::to_string(size));
  check_well(size, "random", std::to_string(std::random_device{}() % 1'000'000));
}

TEST_CASE("after the first pass buckets are begun in the order of rank 0") {
  check_well(3, "order");
}

TEST_CASE("gradients may be of another type than parameters, and a pass is measured") {
  const int size = GENERATE(1, 4);
  check_well(size, "type");
}

TEST_CASE("passes without all_reduce add up") {
  const int size = GENERATE(1, 3);
  check_well(size, "no_sync");
}

TEST_CASE("a parameter that only some ranks use is averaged, and one that none uses is kept") {
  const int size = GENERATE(1, 2, 4);
  check_well(size, "unused");
}

TEST_CASE("a data-parallel model that is used wrongly says how, and goes on") {
  const int size = GENERATE(1, 2);
  check_well(size, "misuse");
}

TEST_CASE("a bucket may have 100 MiB") {
  check_well(2, "large");
}

TEST_CASE("models that differ between ranks are told alike on all of them") {
  const auto [argument, difference] = GENERATE(table<std::string, std::string>({
      {"count", "parameter 1 float32[4] on rank 0, parameter 1 float32[7] on rank 2"},
      {"type", "parameter 0 float32[3] on rank 0, parameter 0 float64[3] on rank 2"},
      {"more", "nothing on rank 0, parameter 3 float32[1] on rank 2"},
      {"option", "bucket_bytes 6 on rank 0, bucket_bytes 5 on rank 2"},
  }));
  for (const Ended& rank : train(4, "mismatch", argument)) {
    CHECK(rank.code == failed(ddp::ErrorKind::mismatch));
    CHECK(rank.output ==
          "ddp: ranks do not agree on a DistributedDataParallel: " + difference + "\n");
  }
}

TEST_CASE("a rank that leaves in the middle of a backward pass is named by the others") {
  const std::string how = GENERATE("dies", "throws");
  const auto ended = train(3, "leave", how);
  INFO(ended[1].output);
  CHECK(ended[1].code == (how == "dies" ? 0 : 2));
  CHECK(ended[1].output == (how == "dies" ? "" : "thrown by the program\n"));
  for (const int rank : {0, 2}) {
    INFO(ended[rank].output);
    CHECK(ended[rank].code == failed(ddp::ErrorKind::peer_lost));
    CHECK(contains(ended[rank].output, "lost rank 1"));
  }
}
