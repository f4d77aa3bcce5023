// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ddp/process_group.h"
#include "tests/catch.h"
#include "tests/collectives/ranks.h"

using namespace ddprun::tests;
using ddp::ProcessGroup;
using ddp::ReduceOp;

TEST_CASE("scan combines a rank's data with that of the ranks before it", "[tcp][nodes][mpi]") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) {
    const int rank = group.rank();
    for (const std::size_t count : {0, 1, 3, 5000}) {
      std::vector<std::int32_t> in(count);
      for (std::size_t i = 0; i < count; ++i) in[i] = (rank + 1) * static_cast<int>(i % 7);
      std::vector<std::int32_t> out(count, -1);
      group.scan(in, out);
      std::vector<std::int32_t> before(count, -1);
      group.exscan(in, before);
      for (std::size_t i = 0; i < count; ++i) {
        const int all = (rank + 1) * (rank + 2) / 2 * static_cast<int>(i % 7);
        check(out[i] == all, "a sum of scan");
        check(before[i] == (rank == 0 ? -1 : all - in[i]), "a sum of exscan");
      }
      group.scan(in, in, ReduceOp::max);
      for (std::size_t i = 0; i < count; ++i) {
        check(in[i] == (rank + 1) * static_cast<int>(i % 7), "a maximum in place");
      }
    }
  });
}

TEST_CASE("scan and exscan take and return one value", "[tcp][mpi]") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) {
    const int rank = group.rank();
    check(group.scan(rank + 1) == (rank + 1) * (rank + 2) / 2, "scan of an int");
    check(group.exscan(std::uint64_t{10}) == 10U * static_cast<unsigned>(rank), "a rank's begin");
    check(group.scan(rank == 1, ReduceOp::max) == (rank >= 1), "scan of bool");
    constexpr double kLowest = std::numeric_limits<double>::lowest();
    const double most = group.exscan(static_cast<double>(-rank), ReduceOp::max, kLowest);
    check(most == (rank == 0 ? kLowest : 0), "exscan with a value for rank 0");
    const std::complex<float> product = group.scan(std::complex<float>(0, 1), ReduceOp::product);
    constexpr std::array<std::complex<float>, 4> kPowers = {{{0, 1}, {-1, 0}, {0, -1}, {1, 0}}};
    check(product == kPowers[static_cast<std::size_t>(rank)], "scan of complex numbers");
    const ddp::float16 half = group.scan(ddp::float16(0.5F));
    check(static_cast<float>(half) == 0.5F * static_cast<float>(rank + 1), "scan of float16");
  });
}

TEST_CASE("scan names the calls of ranks that differ") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) {
    static_cast<void>(group.scan(1, group.rank() == 0 ? ReduceOp::sum : ReduceOp::max));
  });
  check_failure(ended, ddp::ErrorKind::mismatch,
                {"ddp: rank 0 is at scan sum int32[1], but rank 1 is at scan max int32[1]"});
  const auto other = run_ranks(2, [](ProcessGroup& group) {
    static_cast<void>(group.rank() == 0 ? group.scan(1) : group.exscan(1));
  });
  check_failure(other, ddp::ErrorKind::mismatch,
                {"ddp: rank 0 is at scan sum int32[1], but rank 1 is at exscan sum int32[1]"});
}

TEST_CASE("scan refuses arguments that have no result, and the group stays usable") {
  check_ranks(2, [](ProcessGroup& group) {
    std::vector<float> data(4);
    std::vector<double> others(4);
    float* const nowhere = nullptr;
    const ddp::Buffer more(others);
    refused([&] { group.scan(ddp::ConstBuffer(data), more); });
    refused([&] { group.scan(data, std::span(data).first(3)); });
    refused([&] { group.exscan(data, data, ReduceOp::bxor); });
    refused([&] { group.scan(std::span(nowhere, 4), data); });
    const ddp::DeviceSpan<float> there = {data.data(), data.size()};
    refused([&] { group.scan(there, there); });
    check(group.scan(1) == group.rank() + 1, "a scan after refusals");
  });
}
