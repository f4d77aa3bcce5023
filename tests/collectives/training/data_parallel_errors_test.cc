// SPDX-License-Identifier: Apache-2.0
// DistributedDataParallel refuses wrong use, and reports lost ranks.

#include <array>
#include <csignal>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/collectives/training/model.h"

using namespace ddprun::tests;
using namespace ddp_tests;
using ddp::DistributedDataParallel;
using ddp::ProcessGroup;

TEST_CASE("a data-parallel model refuses wrong use and stays usable", "[gpu]") {
  const int size = GENERATE(1, 2);
  check_training(size, [](ProcessGroup& group) {
    const Model made({3, 4, 5}, group.rank());
    std::vector<int> whole(3);
    std::vector<float> here(3);
    check_refused("of no parameters", [&] { DistributedDataParallel(group, {}); });
    check_refused("parameter 0 has gradients of int32: only floating-point types",
                  [&] { DistributedDataParallel(group, {whole}); });
    check_refused("buckets of 0 bytes", [&] {
      DistributedDataParallel(group, made.parameters, placed({.first_bucket_bytes = 0}));
    });
    const ddp::DeviceSpan<float> elsewhere{here.data(), 3};
    const bool has_memory = group.backend() == "nccl";  // the group's own
    check_refused(has_memory ? "is in no GPU's memory" : "without the option allocate",
                  [&] { DistributedDataParallel(group, {elsewhere}); });
    check_refused("parameter 1 is not in the memory",
                  [&] { DistributedDataParallel(group, {here, elsewhere}); });

    DistributedDataParallel model(group, made.parameters, placed());
    check_refused("parameter 3 of a model that has 3", [&] { model.gradient_ready(3); });
    check_refused("the gradient of parameter 1 as float64", [&] { model.gradient<double>(1); });
    compute(model, group.rank(), 0, 1);
    check_refused("parameter 1 is ready a second time", [&] { model.gradient_ready(1); });
    check_refused("no_sync() in a pass", [&] { static_cast<void>(model.no_sync()); });
    check_refused("parameters 0, 2 of 3 were not ready", [&] { model.finish(); });
    compute(model, group.rank(), 0, 0);
    compute(model, group.rank(), 0, 2);
    model.finish();
    check_average(model, group.size(), 0);
  });
}

TEST_CASE("models that differ between ranks fail alike on all ranks") {
  const auto [what, difference] = GENERATE(table<std::string, std::string>({
      {"count", "parameter 1 float32[4] on rank 0, parameter 1 float32[7] on rank 2"},
      {"type", "parameter 0 float32[3] on rank 0, parameter 0 float64[3] on rank 2"},
      {"more", "nothing on rank 0, parameter 3 float32[1] on rank 2"},
      {"structs",
       "buffer 0 structs of 2 bytes[3] on rank 0, buffer 0 structs of 3 bytes[3] on rank 2"},
      {"option", "bucket_bytes 6 on rank 0, bucket_bytes 5 on rank 2"},
  }));
  const auto ended = train(
      4,
      [](ProcessGroup& group, const std::string& what_differs) {
        const bool other = group.rank() == 2;
        std::vector<std::size_t> counts = {3, 4, 5};
        if (other && what_differs == "count") counts[1] = 7;
        if (other && what_differs == "more") counts.push_back(1);
        const Model made(counts, group.rank(), other && what_differs == "type" ? 3 : 0);
        std::array<std::array<char, 3>, 3> three{};
        std::array<std::array<char, 2>, 3> two{};
        auto options = placed({.bucket_bytes = other && what_differs == "option" ? 5U : 6U});
        if (what_differs == "structs") {
          options.buffers = {other ? ddp::Buffer(three) : ddp::Buffer(two)};
        }
        DistributedDataParallel(group, made.parameters, options);
      },
      what);
  for (const Ended& rank : ended) {
    CHECK(rank.code == failed(ddp::ErrorKind::mismatch));
    CHECK(rank.output ==
          "ddp: ranks do not agree on a DistributedDataParallel: " + difference + "\n");
  }
}

TEST_CASE("the others name a rank that leaves in the middle of a backward pass") {
  const bool killed = GENERATE(true, false);
  const auto ended = train(
      3,
      [](ProcessGroup& group, bool dies) {
        // One bucket is under way that the others have not begun.
        const Model made({100, 100}, group.rank());
        DistributedDataParallel model(group, made.parameters, placed({.first_bucket_bytes = 1}));
        if (group.rank() == 1) {
          compute(model, 1, 0, 1);
          if (dies) std::raise(SIGKILL);
          throw std::runtime_error("thrown by the program");
        }
        backward(model, group.rank(), 0, {0, 1});
        model.finish();  // on a device this waits for no data of rank 1
        group.barrier();
      },
      killed);
  INFO(ended[1].output);
  CHECK(ended[1].code == (killed ? 128 + SIGKILL : 2));
  CHECK(ended[1].output == (killed ? "" : "thrown by the program\n"));
  check_failure({ended[0], ended[2]}, ddp::ErrorKind::peer_lost, {ddp_tests::lost_rank_1()});
}
