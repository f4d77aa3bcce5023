// SPDX-License-Identifier: Apache-2.0
#include "tests/collectives/call/operations.h"

#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "ddp/float16.h"
#include "tests/catch.h"
#include "tests/collectives/group/begun_calls.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"
#include "tests/paths.h"

using namespace ddprun::tests;
using ddp::bfloat16;
using ddp::float16;
using ddp::ProcessGroup;

namespace {

/// Calls change from small to large around 64 KiB of a block; pieces have 126 KiB.
std::vector<std::size_t> counts_of(std::size_t width) {
  const std::size_t limit = (64 << 10) / width;
  const std::size_t piece = (126 << 10) / width;
  std::vector<std::size_t> counts = {0, 1, 7};
  if (!ddp_tests::kSanitized) counts.insert(counts.end(), {1001, limit, limit + 1});
  if (width == 8) counts.push_back(2 * piece + 3);
  return counts;
}

/// MPI's ranks wait by spinning. If other programs use the processors, too, three ranks take 26 s
/// for all types on two processors.
void check_few_types(ProcessGroup& group) {
  ddp_tests::check_type<bfloat16>(group, counts_of(sizeof(bfloat16)));
  ddp_tests::check_type<std::int8_t>(group, counts_of(1));
  ddp_tests::check_type<double>(group, counts_of(sizeof(double)));
}

/// With backend cpu, ddprun starts the ranks, as it does for users.
template <RankBody F>
Ended run_job(int size, F body) {
  const Variables patient = {{"DDP_TEST_TIMEOUT_MS", "120000"}};
  Words command = rank_command(body);
  if (is_over_mpi()) return under_mpirun(size, command, patient);
  command.insert(command.begin(),
                 {program_path("ddprun"), "--nproc_per_node", std::to_string(size)});
  return Rank(command, patient).wait();
}

}  // namespace

TEST_CASE("every operation gives the right result for every type, in place or not, at any size",
          "[mpi][nodes]") {
  // MPI's ranks wait by spinning. A sanitizer makes that slow if there are more ranks than
  // processors.
  const int size = ddp_tests::kSanitized ? GENERATE(2, 3) : GENERATE(1, 2, 3, 5);
  if (is_over_mpi() && size > 3) return;
  const Ended job = run_job(size, [](ProcessGroup& group) {
    if (is_over_mpi() && group.size() > 2) {
      check_few_types(group);
    } else {
      ddp_tests::check_all(group, counts_of);
      ddp_tests::check_type<std::int16_t>(group, counts_of(2));
      ddp_tests::check_type<std::uint16_t>(group, counts_of(2));
    }
    group.barrier();
  });
  INFO(size << " ranks: " << job.output);
  CHECK(job.code == 0);
  CHECK(
      contains(job.output, "all_reduce cannot take the avg of int8: only of floating-point types"));
  CHECK(contains(job.output, "all_reduce cannot take the bxor of bfloat16: only of integers"));
}

TEST_CASE("every begun call gives the same result as the blocking one") {
  const int size = GENERATE(1, 2, 3, 4);
  const Ended job = run_job(size, [](ProcessGroup& group) {
    BegunCalls begun(group);
    ddp_tests::check_type<double>(begun, counts_of(sizeof(double)));
    group.barrier();
  });
  INFO(size << " ranks: " << job.output);
  CHECK(job.code == 0);
}

TEST_CASE("every integer type is an element, of its size and sign") {
  using ddp::data_type;
  using ddp::DataType;
  STATIC_REQUIRE(data_type<long>() == data_type<long long>());
  STATIC_REQUIRE(data_type<long long>() == DataType::int64);
  STATIC_REQUIRE(data_type<unsigned long>() == DataType::uint64);
  STATIC_REQUIRE(data_type<unsigned long long>() == DataType::uint64);
  STATIC_REQUIRE(data_type<unsigned>() == DataType::uint32);
  STATIC_REQUIRE(data_type<short>() == DataType::int16);
  STATIC_REQUIRE(data_type<unsigned short>() == DataType::uint16);
  STATIC_REQUIRE(data_type<signed char>() == DataType::int8);
  STATIC_REQUIRE(data_type<char>() == (CHAR_MIN < 0 ? DataType::int8 : DataType::uint8));
  STATIC_REQUIRE(data_type<std::byte>() == DataType::uint8);
  STATIC_REQUIRE(!ddp::Element<const int>);
  STATIC_REQUIRE(!ddp::Element<std::string>);
}

TEST_CASE("a number is combined like a buffer of one element, and structs are moved as bytes",
          "[mpi]") {
  const int size = GENERATE(1, 2, 3, 4);
  const Ended job = run_job(size, [](ProcessGroup& group) {
    const int ranks = group.size();
    check(group.all_reduce(group.rank() + 1) == ranks * (ranks + 1) / 2, "sum");
    check(group.all_reduce(1.5 * group.rank(), ddp::ReduceOp::max) == 1.5 * (ranks - 1), "max");
    check(
        group.all_reduce(group.rank() == 0 ? 3U : 1U, ddp::ReduceOp::band) == 1 + 2U * (ranks == 1),
        "band");

    struct Sample {
      int label;
      double weight;
    };
    const Sample own[] = {{group.rank(), 0.5}, {-group.rank(), 2.5}};
    std::vector<Sample> all(2 * static_cast<std::size_t>(ranks));
    group.all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)));
    for (int i = 0; i < 2 * ranks; ++i) {
      const Sample& sample = all[static_cast<std::size_t>(i)];
      check(sample.label == (i % 2 == 0 ? i / 2 : -(i / 2)), "label");
      check(sample.weight == (i % 2 == 0 ? 0.5 : 2.5), "weight");
    }
    group.barrier();
  });
  INFO(job.output);
  CHECK(job.code == 0);
}

TEST_CASE("the min and max are NaN on every rank if one rank has NaN", "[mpi][nodes][tcp]") {
  const int size = is_over_mpi() ? 3 : GENERATE(2, 4, 9);  // more than 8 use trees, over TCP
  const Ended job = run_job(size, [](ProcessGroup& group) {
    const auto ranks = static_cast<std::size_t>(group.size());
    const auto own = static_cast<std::size_t>(group.rank());
    const auto check_type = [&](auto type, std::size_t count) {
      using T = decltype(type);
      for (const ddp::ReduceOp op : {ddp::ReduceOp::min, ddp::ReduceOp::max}) {
        std::vector<T> data(count);
        for (std::size_t i = 0; i < count; ++i) {
          const auto number = static_cast<float>((i + own) % ranks) / 2;
          data[i] = T(i % ranks == own ? std::numeric_limits<float>::quiet_NaN() : number);
        }
        group.all_reduce(data, op);
        for (const T& each : data) check(std::isnan(static_cast<float>(each)), "a number");
      }
    };
    for (const std::size_t count : {std::size_t{1}, 3 * ranks, std::size_t{150'001}}) {
      check_type(0.0F, count);
      check_type(0.0, count);
      check_type(float16(), count);
      check_type(bfloat16(), count);
    }
  });
  INFO(size << " ranks: " << job.output);
  CHECK(job.code == 0);
}

TEST_CASE("64 MiB are moved and combined like less data", "[mpi]") {
  const Ended job = run_job(3, [](ProcessGroup& group) {
    constexpr std::size_t kBytes = std::size_t{ddp_tests::kSanitized ? 8 : 64} << 20;
    ddp_tests::Checker<float, ProcessGroup>(group, kBytes / sizeof(float) / 3).large();
  });
  INFO(job.output);
  CHECK(job.code == 0);
}

TEST_CASE("every float16 becomes its float, and that float becomes the float16 again") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = float16::from_bits(static_cast<std::uint16_t>(bits));
    const int exponent = static_cast<int>(bits >> 10U & 31U);
    const int fraction = static_cast<int>(bits & 0x3ffU);
    const float value = half;
    if (exponent == 31 && fraction != 0) {
      REQUIRE(std::isnan(value));
      REQUIRE(std::isnan(static_cast<float>(float16(value))));
      continue;
    }
    float expected = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                   : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
    if (exponent == 31) expected = std::numeric_limits<float>::infinity();
    REQUIRE(value == (bits >> 15U != 0 ? -expected : expected));
    REQUIRE(float16(value).bits() == bits);
  }
}

TEST_CASE("a float between two float16 becomes the nearer, or in the middle the even one") {
  for (std::uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = float16::from_bits(bits);
    const float high = float16::from_bits(static_cast<std::uint16_t>(bits + 1));
    const float middle = (low + high) / 2;
    REQUIRE(float16(middle).bits() == bits + bits % 2);
    REQUIRE(float16(std::nextafter(middle, 0.0F)).bits() == bits);
    REQUIRE(float16(std::nextafter(middle, high)).bits() == bits + 1);
    REQUIRE(float16(-middle).bits() == (0x8000 | (bits + bits % 2)));
  }
  CHECK(float16(65519.996F).bits() == 0x7bff);
  CHECK(float16(65520.0F).bits() == 0x7c00);
  CHECK(float16(std::numeric_limits<float>::max()).bits() == 0x7c00);
  CHECK(float16(std::numeric_limits<float>::denorm_min()).bits() == 0);
}

TEST_CASE("a float between two bfloat16 becomes the nearer, or in the middle the even one") {
  for (std::uint32_t bits = 0; bits < 0x7f7f; ++bits) {
    const auto low = bfloat16::from_bits(static_cast<std::uint16_t>(bits));
    const float middle = std::bit_cast<float>(bits << 16U | 0x8000U);
    REQUIRE(bfloat16(static_cast<float>(low)).bits() == bits);
    REQUIRE(bfloat16(middle).bits() == bits + bits % 2);
    REQUIRE(bfloat16(std::nextafter(middle, 0.0F)).bits() == bits);
    REQUIRE(bfloat16(std::nextafter(middle, INFINITY)).bits() == bits + 1);
  }
  CHECK(std::isnan(static_cast<float>(bfloat16(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(static_cast<float>(bfloat16(-std::numeric_limits<float>::max())) == -INFINITY);
}
