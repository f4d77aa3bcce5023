// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ddp/process_group.h>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/collectives/in_rank.h"

/// Makes every call, with every type, and compares each result with a plain computation. A wrong
/// result is printed, and ends the process with exit code 1.
namespace ddp_tests {

using ddp::ReduceOp;
using ddprun::tests::refused;
using ddprun::tests::wrong;
using Counts = std::vector<std::size_t>;

inline constexpr std::array kOps = {ReduceOp::sum, ReduceOp::avg, ReduceOp::product,
                                    ReduceOp::min, ReduceOp::max, ReduceOp::band,
                                    ReduceOp::bor, ReduceOp::bxor};

template <class T>
inline constexpr bool kIsComplex = false;
template <class R>
inline constexpr bool kIsComplex<std::complex<R>> = true;

template <class T>
inline constexpr bool kIsFloat8 =
    std::is_same_v<T, ddp::float8_e4m3> || std::is_same_v<T, ddp::float8_e5m2>;

/// Element `i` of rank `rank`: random, but the same on all ranks. Floating-point values are small
/// and whole, so that the order of summing makes no difference.
template <class T>
T value(int rank, std::size_t i) {
  std::uint64_t x = i * 0x9E3779B97F4A7C15U + static_cast<std::uint64_t>(rank + 1) * 0xD1B54A32U;
  x = (x ^ x >> 31U) * 0xBF58476D1CE4E5B9U;
  x ^= x >> 29U;
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(x);
  } else if constexpr (kIsComplex<T>) {
    return {static_cast<typename T::value_type>(static_cast<int>(x % 17) - 8),
            static_cast<typename T::value_type>(static_cast<int>(x / 17 % 17) - 8)};
  } else if constexpr (kIsFloat8<T>) {
    return static_cast<T>(static_cast<float>(static_cast<int>(x % 5) - 2));
  } else {
    return static_cast<T>(static_cast<float>(static_cast<int>(x % 17) - 8));
  }
}

template <class T>
std::string text(T element) {
  if constexpr (kIsComplex<T>) {
    return std::to_string(element.real()) + " + i " + std::to_string(element.imag());
  } else {
    return std::to_string(element);
  }
}

/// Temporary elements, for one call.
template <class T>
ddp::ConstBuffer read(const std::vector<T>& elements) {
  return std::span(elements);
}

template <class T>
std::vector<T> values(int rank, std::size_t count, std::size_t first = 0) {
  std::vector<T> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = value<T>(rank, first + i);
  return all;
}

/// The type in which floats of 8 and 16 bits are combined, and in which integers wrap around.
template <class T>
using Wide =
    std::conditional_t<kIsComplex<T>, T,
                       std::conditional_t<std::is_integral_v<T>, std::uint64_t,
                                          std::conditional_t<sizeof(T) == 8, double, float>>>;

template <class T>
Wide<T> wide(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::make_unsigned_t<T>>(value);
  } else {
    return static_cast<Wide<T>>(value);
  }
}

template <class T>
T combined(ReduceOp op, int size, std::size_t i) {
  if constexpr (!kIsComplex<T>) {
    if (op == ReduceOp::min || op == ReduceOp::max) {
      T best = value<T>(0, i);
      for (int rank = 1; rank < size; ++rank) {
        const T next = value<T>(rank, i);
        if (op == ReduceOp::min ? next < best : best < next) best = next;
      }
      return best;
    }
  }
  auto all = wide(value<T>(0, i));
  for (int rank = 1; rank < size; ++rank) {
    const auto next = wide(value<T>(rank, i));
    if (op == ReduceOp::sum || op == ReduceOp::avg) all += next;
    if (op == ReduceOp::product) all *= next;
    if constexpr (std::is_integral_v<T>) {
      if (op == ReduceOp::band) all &= next;
      if (op == ReduceOp::bor) all |= next;
      if (op == ReduceOp::bxor) all ^= next;
    }
  }
  if constexpr (kIsComplex<T>) {
    if (op == ReduceOp::avg) all /= static_cast<typename T::value_type>(size);
  } else {
    if (op == ReduceOp::avg) all /= static_cast<Wide<T>>(size);
  }
  return static_cast<T>(all);
}

template <class T>
std::vector<T> all_combined(ReduceOp op, int size, std::size_t count, std::size_t first = 0) {
  std::vector<T> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = combined<T>(op, size, first + i);
  return all;
}

/// A group that rounds to the elements' type at each step, as NCCL does, and not only at the end.
template <class Group>
concept RoundsEachStep = Group::kRoundsEachStep;

/// Whether the error is at most that of rounding, for products and averages of value().
template <class T>
bool is_near(T got, T expected, int steps) {
  constexpr double kLargest = 8;  // the largest value()
  const double precision = std::is_same_v<Wide<T>, double>           ? 0x1p-52
                           : std::is_same_v<T, std::complex<double>> ? 0x1p-52
                           : std::is_same_v<T, std::complex<float>>  ? 0x1p-23
                           : sizeof(T) == 4                          ? 0x1p-23
                           : std::is_same_v<T, ddp::float16>         ? 0x1p-10
                           : std::is_same_v<T, ddp::float8_e4m3>     ? 0x1p-3
                           : std::is_same_v<T, ddp::float8_e5m2>     ? 0x1p-2
                                                                     : 0x1p-7;
  const double difference = std::abs(wide(got) - wide(expected));
  const double size = std::abs(wide(expected));
  return difference <= steps * precision * std::max(size, kLargest);
}

/// `Group` is a ProcessGroup, or has its calls.
template <class T, class Group>
class Checker {
 public:
  Checker(Group& group, std::size_t count)
      : group_(group), rank_(group.rank()), size_(group.size()), count_(count) {
    for (int rank = 0; rank < size_; ++rank) {
      // After rank 0, some ranks have nothing and some have more than others.
      counts_.push_back(count * static_cast<std::size_t>((rank * 2 + 1) % 3) / 2 +
                        static_cast<std::size_t>(rank % 2));
      begins_.push_back(total_);
      total_ += counts_.back();
    }
  }

  void all() {
    for (int root = 0; root < size_; ++root) rooted(root);
    gathers();
    exchanges();
    for (ReduceOp op : kOps) {
      if (!has(op)) continue;
      reductions(op);
      if (count_ > 2000) break;  // the bits of large sums are not needed
    }
    refusals();
  }

  /// Makes all calls that NCCL can do with complex numbers.
  void without_products() {
    for (int root = 0; root < size_; ++root) rooted(root);
    gathers();
    exchanges();
    reductions(ReduceOp::sum);
    reductions(ReduceOp::avg);
  }

  /// Makes one call of each kind, with more data than all others together.
  void large() {
    gathers();
    exchanges();
    rooted(0);
    const std::size_t count = times_size();
    auto data = values<T>(rank_, count);
    group_.all_reduce(data);
    same("all_reduce", data, all_combined<T>(ReduceOp::sum, size_, count));
    std::vector<T> part(count_);
    group_.reduce_scatter(read(values<T>(rank_, count)), part);
    same("reduce_scatter", part, all_combined<T>(ReduceOp::sum, size_, count_, at(rank_) * count_));
  }

 private:
  bool has(ReduceOp op) const {
    const bool bits = op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
    if constexpr (requires { group_.has_bits(); }) {
      if (bits && !group_.has_bits()) return false;
    }
    if (kIsComplex<T>) return !bits && op != ReduceOp::min && op != ReduceOp::max;
    return std::is_integral_v<T> ? op != ReduceOp::avg : !bits;
  }

  void same(const char* what, const std::vector<T>& got, const std::vector<T>& expected) const {
    if (got.size() != expected.size()) wrong(what);
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (got[i] == expected[i]) continue;
      if constexpr (RoundsEachStep<Group> && !std::is_integral_v<T>) {
        if (is_rounded_ && is_near(got[i], expected[i], size_)) continue;
      }
      wrong(std::string(what) + ", type " + std::to_string(static_cast<int>(ddp::data_type<T>())) +
            ", " + std::to_string(size_) + " ranks, count " + std::to_string(count_) +
            ": element " + std::to_string(i) + " is " + text(got[i]) + ", not " +
            text(expected[i]));
    }
  }

  std::vector<T> own() const { return values<T>(rank_, count_); }
  std::vector<T> own_block() const { return values<T>(rank_, counts_[at(rank_)]); }
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  std::size_t times_size() const { return count_ * at(size_); }

  /// Every rank's first elements, one rank after the other.
  std::vector<T> everyone(const Counts& counts) const {
    std::vector<T> all;
    for (int rank = 0; rank < size_; ++rank) {
      const auto part = values<T>(rank, counts[at(rank)]);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  Counts equal() const { return Counts(at(size_), count_); }

  std::span<T> block(std::vector<T>& all, int rank, const Counts& counts) const {
    const auto begin = std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
    return std::span(all).subspan(begin, counts[at(rank)]);
  }

  void rooted(int root) {
    const bool mine = rank_ == root;
    auto data = own();
    group_.broadcast(data, root);
    same("broadcast", data, values<T>(root, count_));

    std::vector<T> out(mine ? times_size() : 0);
    group_.gather(read(own()), out, root);
    if (mine) same("gather", out, everyone(equal()));
    std::vector<T> out_v(mine ? total_ : 0);
    group_.gather_v(read(own_block()), out_v, counts_, root);
    if (mine) same("gather_v", out_v, everyone(counts_));
    if (mine) {
      std::fill(out.begin(), out.end(), T());
      auto place = block(out, rank_, equal());
      std::ranges::copy(own(), place.begin());
      group_.gather(place, out, root);
      same("gather in place", out, everyone(equal()));
    } else {
      group_.gather(read(own()), {}, root);
    }

    std::vector<T> part(count_);
    group_.scatter(read(values<T>(root, mine ? times_size() : 0)), part, root);
    same("scatter", part, values<T>(root, count_, at(rank_) * count_));
    std::vector<T> part_v(counts_[at(rank_)]);
    group_.scatter_v(read(values<T>(root, mine ? total_ : 0)), counts_, part_v, root);
    same("scatter_v", part_v, values<T>(root, part_v.size(), begins_[at(rank_)]));
    if (mine) {
      auto all = values<T>(root, times_size());
      group_.scatter(all, block(all, rank_, equal()), root);
      same("scatter in place", all, values<T>(root, times_size()));
    } else {
      group_.scatter({}, part, root);
    }
  }

  void gathers() {
    std::vector<T> out(times_size());
    group_.all_gather(read(own()), out);
    same("all_gather", out, everyone(equal()));
    std::vector<T> out_v(total_);
    group_.all_gather_v(read(own_block()), out_v, counts_);
    same("all_gather_v", out_v, everyone(counts_));
    for (auto* all : {&out, &out_v}) {
      const Counts counts = all == &out ? equal() : counts_;
      std::fill(all->begin(), all->end(), T());
      auto place = block(*all, rank_, counts);
      std::ranges::copy(values<T>(rank_, place.size()), place.begin());
      group_.all_gather_v(place, *all, counts);
      same("all_gather_v in place", *all, everyone(counts));
    }
  }

  void exchanges() {
    std::vector<T> expected;
    for (int rank = 0; rank < size_; ++rank) {
      const auto part = values<T>(rank, count_, at(rank_) * count_);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    auto data = values<T>(rank_, times_size());
    std::vector<T> out(times_size());
    group_.all_to_all(data, out);
    same("all_to_all", out, expected);
    group_.all_to_all(data, data);
    same("all_to_all in place", data, expected);

    // Rank r sends rank q counts_[q] elements; rank 0 sends nothing.
    const Counts send = rank_ == 0 ? Counts(at(size_), 0) : counts_;
    Counts recv(at(size_), counts_[at(rank_)]);
    recv[0] = 0;
    expected.clear();
    for (int rank = 1; rank < size_; ++rank) {
      const auto part = values<T>(rank, recv[at(rank)], begins_[at(rank_)]);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    std::vector<T> out_v(expected.size());
    group_.all_to_all_v(read(values<T>(rank_, rank_ == 0 ? 0 : total_)), send, out_v, recv);
    same("all_to_all_v", out_v, expected);
  }

  void reductions(ReduceOp op) {
    is_rounded_ = op == ReduceOp::avg || op == ReduceOp::product;
    const auto expected = all_combined<T>(op, size_, count_);
    std::vector<T> out(count_);
    group_.all_reduce(read(own()), out, op);
    same("all_reduce", out, expected);
    auto data = own();
    group_.all_reduce(data, op);
    same("all_reduce in place", data, expected);

    const int root = size_ - 1;
    std::fill(out.begin(), out.end(), T());
    group_.reduce(read(own()), rank_ == root ? ddp::Buffer(out) : ddp::Buffer(), root, op);
    if (rank_ == root) same("reduce", out, expected);
    data = own();
    group_.reduce(data, root, op);
    same("reduce in place", data, rank_ == root ? expected : own());

    std::vector<T> part(count_);
    group_.reduce_scatter(read(values<T>(rank_, times_size())), part, op);
    same("reduce_scatter", part, all_combined<T>(op, size_, count_, at(rank_) * count_));
    auto all = values<T>(rank_, times_size());
    auto place = block(all, rank_, equal());
    group_.reduce_scatter(all, place, op);
    same("reduce_scatter in place", {place.begin(), place.end()}, part);
    std::vector<T> part_v(counts_[at(rank_)]);
    group_.reduce_scatter_v(read(values<T>(rank_, total_)), part_v, counts_, op);
    same("reduce_scatter_v", part_v, all_combined<T>(op, size_, part_v.size(), begins_[at(rank_)]));
    is_rounded_ = false;
  }

  /// Checks that an operation that the type does not have is refused, and the group stays usable.
  void refusals() {
    for (ReduceOp op : kOps) {
      if (has(op)) continue;
      auto data = own();
      try {
        group_.all_reduce(data, op);
        wrong("an operation that the type has not");
      } catch (const ddp::Error& error) {
        if (error.kind() != ddp::ErrorKind::usage) wrong(error.what());
        if (count_ == 1) std::printf("%s\n", error.what());
      }
    }
  }

  Group& group_;
  int rank_;
  int size_;
  std::size_t count_;
  Counts counts_;
  Counts begins_;
  std::size_t total_ = 0;
  bool is_rounded_ = false;  // the result that is compared now
};

// Sanitizers make the checks many times slower; less data also shows what they look for.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

template <class T, class Group>
void check_type(Group& group, const std::vector<std::size_t>& counts) {
  for (const std::size_t count : counts) Checker<T, Group>(group, count).all();
}

/// Returns the counts for elements of `width` bytes.
using CountsOf = std::vector<std::size_t> (*)(std::size_t width);

template <class Group>
void check_all(Group& group, CountsOf counts) {
  check_type<ddp::float16>(group, counts(2));
  check_type<ddp::bfloat16>(group, counts(2));
  check_type<float>(group, counts(4));
  check_type<double>(group, counts(8));
  check_type<std::int8_t>(group, counts(1));
  check_type<std::uint8_t>(group, counts(1));
  check_type<std::int32_t>(group, counts(4));
  check_type<std::int64_t>(group, counts(8));
  check_type<std::uint32_t>(group, counts(4));
  check_type<std::uint64_t>(group, counts(8));
}

}  // namespace ddp_tests
