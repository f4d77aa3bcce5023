// SPDX-License-Identifier: Apache-2.0
// Reductions by the widest instructions of this processor give the same as one step after the
// other, and NaN is chosen in both.
#include "collectives/call/reduction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "tests/catch.h"

namespace ddprun::tests {
namespace {

using ddp::DataType;
using ddp::ReduceOp;
using ddp::internal::Reduction;

constexpr std::size_t kMostRanks = 5;

struct ReducedType {
  DataType type;
  std::size_t width;
};
constexpr std::array kReducedTypes = {
    ReducedType{DataType::float16, 2},     ReducedType{DataType::bfloat16, 2},
    ReducedType{DataType::float32, 4},     ReducedType{DataType::float64, 8},
    ReducedType{DataType::int8, 1},        ReducedType{DataType::uint8, 1},
    ReducedType{DataType::int16, 2},       ReducedType{DataType::uint16, 2},
    ReducedType{DataType::int32, 4},       ReducedType{DataType::uint32, 4},
    ReducedType{DataType::int64, 8},       ReducedType{DataType::uint64, 8},
    ReducedType{DataType::boolean, 1},     ReducedType{DataType::float8_e4m3, 1},
    ReducedType{DataType::float8_e5m2, 1}, ReducedType{DataType::complex64, 8},
    ReducedType{DataType::complex128, 16},
};
constexpr std::array kEveryOp = {ReduceOp::sum, ReduceOp::avg,  ReduceOp::product, ReduceOp::min,
                                 ReduceOp::max, ReduceOp::band, ReduceOp::bor,     ReduceOp::bxor};

/// Random bytes without infinity or NaN in any type: no number has all bits of its exponent.
std::vector<std::uint8_t> random_bytes(std::size_t count, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random() >> 8U & 0xb7U);
  return bytes;
}

using Parts = std::array<const void*, kMostRanks>;

std::vector<std::uint8_t> by_steps(const Reduction& by, const Parts& parts, int ranks,
                                   std::size_t count, std::size_t width) {
  std::vector<std::uint8_t> sums(count * by.sum_width);
  by.load(sums.data(), parts[0], count);
  for (int rank = 1; rank < ranks; ++rank) {
    by.add(sums.data(), parts[static_cast<std::size_t>(rank)], count);
  }
  std::vector<std::uint8_t> result(count * width);
  by.store(result.data(), sums.data(), count, ranks);
  return result;
}

/// Combines the parts in `memory`, with part `in_place` as output.
void check_combined(const Reduction& by, int ranks, std::size_t count, std::size_t width,
                    int in_place) {
  const std::size_t bytes = count * width;
  std::vector<std::vector<std::uint8_t>> memory;
  Parts parts{};
  for (unsigned rank = 0; rank < static_cast<unsigned>(ranks); ++rank) {
    parts[rank] = memory.emplace_back(random_bytes(bytes, rank + 1)).data();
  }
  const auto expected = by_steps(by, parts, ranks, count, width);
  auto& out = memory[static_cast<std::size_t>(in_place)];
  by.combine(out.data(), parts.data(), ranks, count);
  CHECK(out == expected);
}

/// The result for one number of each rank, computed at once and step by step.
template <class T>
std::array<float, 2> combined(const Reduction& by, const std::vector<float>& numbers,
                              std::size_t count) {
  std::vector<std::vector<T>> memory;
  std::vector<const void*> parts;
  for (const float number : numbers) {
    parts.push_back(memory.emplace_back(count, static_cast<T>(number)).data());
  }
  std::vector<T> at_once(count);
  const int ranks = static_cast<int>(numbers.size());
  by.combine(at_once.data(), parts.data(), ranks, count);
  std::vector<std::uint8_t> sums(count * by.sum_width);
  by.load(sums.data(), parts[0], count);
  for (std::size_t rank = 1; rank < parts.size(); ++rank) by.add(sums.data(), parts[rank], count);
  std::vector<T> by_steps(count);
  by.store(by_steps.data(), sums.data(), count, ranks);
  return {static_cast<float>(at_once.back()), static_cast<float>(by_steps.back())};
}

template <class T>
void check_nan_wins(DataType type) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    const Reduction by = ddp::internal::reduction(type, op);
    for (const auto& some : {std::vector<float>{1, nan},
                             {1, 2, nan},
                             {0.5, 1, 2, nan},
                             {nan, nan, nan},
                             {-nan, 1, nan},
                             {INFINITY, -INFINITY, nan, 1}}) {
      std::vector<int> order(some.size());
      std::iota(order.begin(), order.end(), 0);
      do {
        std::vector<float> numbers;
        for (const int place : order) numbers.push_back(some[static_cast<std::size_t>(place)]);
        for (const std::size_t count : {1, 16, 1031}) {
          for (const float result : combined<T>(by, numbers, count)) REQUIRE(std::isnan(result));
        }
      } while (std::ranges::next_permutation(order).found);
    }
  }
}

}  // namespace

TEST_CASE("the min and max of numbers and NaN are NaN in any order") {
  check_nan_wins<float>(DataType::float32);
  check_nan_wins<double>(DataType::float64);
  check_nan_wins<ddp::float16>(DataType::float16);
  check_nan_wins<ddp::bfloat16>(DataType::bfloat16);
  check_nan_wins<ddp::float8_e4m3>(DataType::float8_e4m3);
  check_nan_wins<ddp::float8_e5m2>(DataType::float8_e5m2);
}

TEST_CASE("all parts combined at once give the same as one after the other, for every type") {
  for (const auto& [type, width] : kReducedTypes) {
    for (const ReduceOp op : kEveryOp) {
      if (!ddp::internal::allows(type, op)) continue;
      CAPTURE(static_cast<int>(type), static_cast<int>(op));
      const Reduction by = ddp::internal::reduction(type, op);
      for (const std::size_t count : {0, 1, 7, 256, 1031}) {
        for (const int ranks : {1, 2, 3, 5}) check_combined(by, ranks, count, width, ranks - 1);
      }
    }
  }
}

}  // namespace ddprun::tests
