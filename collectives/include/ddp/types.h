// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>

namespace ddp {

/// How all_reduce combines one element of every rank.
enum class ReduceOp {
  sum,
  mean,  ///< the sum divided by the number of ranks; not for integers
  min,
  max,
};

/// The element types ddp moves.
enum class DataType { float32, float64, int32, int64 };

/// A C++ type ddp moves: float, double, std::int32_t or std::int64_t.
template <class T>
concept Element = std::same_as<T, float> || std::same_as<T, double> ||
    std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t>;

/// Writable elements that lie side by side in memory.
template <class R>
concept Elements =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    Element<std::ranges::range_value_t<R>> && std::same_as < std::ranges::range_reference_t<R>,
        std::ranges::range_value_t<R>
& > ;

/// The DataType of a C++ type.
template <Element T>
constexpr DataType data_type() {
  if constexpr (std::same_as<T, float>) return DataType::float32;
  if constexpr (std::same_as<T, double>) return DataType::float64;
  if constexpr (std::same_as<T, std::int32_t>) return DataType::int32;
  return DataType::int64;
}

/// Elements of one type in memory the caller owns.
struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;  ///< elements, not bytes
  DataType type = DataType::float32;
};

}  // namespace ddp
