// SPDX-License-Identifier: Apache-2.0
#include "collectives/call/reduction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ddp::internal {
namespace {

/// The type in which integers are computed. It is unsigned, so that they wrap around, and not
/// narrower than int, to which they would be promoted.
template <class T>
struct Wrapping {
  using type = T;
};
template <class T>
  requires std::is_integral_v<T>
struct Wrapping<T> {
  using type = std::make_unsigned_t<std::common_type_t<T, int>>;
};
template <class T>
auto wrapping(T value) {
  return static_cast<typename Wrapping<T>::type>(value);
}

struct Sum {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(wrapping(a) + wrapping(b));
  }
};
struct Product {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(wrapping(a) * wrapping(b));
  }
};
/// NaN is chosen over every number, in any order of ranks. If one of the two is NaN, `chosen` is b,
/// as comparisons with NaN are false.
template <class T>
T nan_or(T a, T chosen) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(a) ? a : chosen;
  return chosen;
}

struct Min {
  template <class T>
  static T of(T a, T b) {
    return nan_or(a, a < b ? a : b);  // this form is one instruction on x86
  }
};
struct Max {
  template <class T>
  static T of(T a, T b) {
    return nan_or(a, b < a ? a : b);
  }
};
struct And {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

template <class T, class S>
void load(void* __restrict sums, const void* __restrict elements, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<S*>(sums)[i] = static_cast<S>(static_cast<const T*>(elements)[i]);
  }
}

template <class T, class S, class Op>
void add(void* __restrict sums, const void* __restrict elements, std::size_t count) {
  S* const into = static_cast<S*>(sums);
  for (std::size_t i = 0; i < count; ++i) {
    into[i] = Op::of(into[i], static_cast<S>(static_cast<const T*>(elements)[i]));
  }
}

template <class T, class S>
void store(void* __restrict elements, const void* __restrict sums, std::size_t count, int) {
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<T*>(elements)[i] = static_cast<T>(static_cast<const S*>(sums)[i]);
  }
}

/// The type of a real number, and of the parts of a complex one.
template <class S>
struct RealOf {
  using type = S;
};
template <class R>
struct RealOf<std::complex<R>> {
  using type = R;
};

template <class T, class S>
void store_average(void* __restrict elements, const void* __restrict sums, std::size_t count,
                   int ranks) {
  const auto by = static_cast<typename RealOf<S>::type>(ranks);
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<T*>(elements)[i] = static_cast<T>(static_cast<const S*>(sums)[i] / by);
  }
}

/// Turn the sum over all ranks into the result.
struct Whole {
  template <class S>
  static S of(S sum, int) {
    return sum;
  }
};
struct Average {
  template <class S>
  static S of(S sum, int ranks) {
    return sum / static_cast<typename RealOf<S>::type>(ranks);
  }
};

// Inlined into functions that may use other instructions than this file.
#define DDP_IN_EACH [[gnu::always_inline]] inline

template <class T, class S, class Op, class End>
DDP_IN_EACH void combine_two(T* out, const T* first, const T* second, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    out[i] =
        static_cast<T>(End::of(Op::of(static_cast<S>(first[i]), static_cast<S>(second[i])), 2));
  }
}

/// The number of sums that stay in the first-level cache.
template <class S>
constexpr std::size_t kMostSums = 1024 / sizeof(S);

struct Scalar {
  template <class T, class S>
  DDP_IN_EACH static void widen(S* sums, const T* elements, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) sums[i] = static_cast<S>(elements[i]);
  }
  template <class T, class S>
  DDP_IN_EACH static void narrow(T* elements, const S* sums, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) elements[i] = static_cast<T>(sums[i]);
  }
};

/// Combines up to kMostSums elements.
template <class T, class S, class Op, class End, class Convert>
DDP_IN_EACH void combine_few(T* out, const void* const* parts, int ranks, std::size_t at,
                             std::size_t count) {
  std::array<S, kMostSums<S>> sums;
  [[maybe_unused]] std::array<S, kMostSums<S>> next;
  const auto part = [&](int rank) { return static_cast<const T*>(parts[rank]) + at; };
  Convert::widen(sums.data(), part(0), count);
  for (int rank = 1; rank < ranks; ++rank) {
    if constexpr (std::is_same_v<T, S>) {
      const T* const elements = part(rank);
      for (std::size_t i = 0; i < count; ++i) sums[i] = Op::of(sums[i], elements[i]);
    } else {
      Convert::widen(next.data(), part(rank), count);
      for (std::size_t i = 0; i < count; ++i) sums[i] = Op::of(sums[i], next[i]);
    }
  }
  for (std::size_t i = 0; i < count; ++i) sums[i] = End::of(sums[i], ranks);
  Convert::narrow(out + at, sums.data(), count);
}

template <class T, class S, class Op, class End, class Convert>
DDP_IN_EACH void combine_all(void* out, const void* const* parts, int ranks, std::size_t count) {
  T* const to = static_cast<T*>(out);
  if (ranks == 2 && std::is_same_v<Convert, Scalar>) {
    return combine_two<T, S, Op, End>(to, static_cast<const T*>(parts[0]),
                                      static_cast<const T*>(parts[1]), count);
  }
  for (std::size_t at = 0; at < count; at += kMostSums<S>) {
    combine_few<T, S, Op, End, Convert>(to, parts, ranks, at, std::min(kMostSums<S>, count - at));
  }
}

template <class T, class S, class Op, class End>
void combine(void* out, const void* const* parts, int ranks, std::size_t count) {
  combine_all<T, S, Op, End, Scalar>(out, parts, ranks, count);
}

#if defined(__x86_64__)

/// Uses the processor's own conversion.
struct Halves {
  [[gnu::target("avx2,f16c")]] static void widen(float* sums, const float16* elements,
                                                 std::size_t count) {
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8) {
      const auto bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(elements + i));
      _mm256_storeu_ps(sums + i, _mm256_cvtph_ps(bits));
    }
    for (; i < count; ++i) sums[i] = elements[i];
  }
  [[gnu::target("avx2,f16c")]] static void narrow(float16* elements, const float* sums,
                                                  std::size_t count) {
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8) {
      const auto bits = _mm256_cvtps_ph(_mm256_loadu_ps(sums + i), _MM_FROUND_TO_NEAREST_INT);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(elements + i), bits);
    }
    for (; i < count; ++i) elements[i] = static_cast<float16>(sums[i]);
  }
};

template <class T, class S, class Op, class End>
[[gnu::target("avx2,f16c")]] void combine_wide(void* out, const void* const* parts, int ranks,
                                               std::size_t count) {
  using Convert = std::conditional_t<std::is_same_v<T, float16>, Halves, Scalar>;
  combine_all<T, S, Op, End, Convert>(out, parts, ranks, count);
}

template <class T, class S, class Op, class End>
auto widest_combine() {
  static const bool is_wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return is_wide ? &combine_wide<T, S, Op, End> : &combine<T, S, Op, End>;
}

#else

template <class T, class S, class Op, class End>
auto widest_combine() {
  return &combine<T, S, Op, End>;
}

#endif

/// Adds, and divides, each part of complex numbers separately.
template <class R, class End>
void combine_complex(void* out, const void* const* parts, int ranks, std::size_t count) {
  widest_combine<R, R, Sum, End>()(out, parts, ranks, 2 * count);
}

template <class T, class S, class Op, class End>
auto combine_of() {
  using Real = typename RealOf<S>::type;
  if constexpr (!std::is_same_v<Real, S> && std::is_same_v<Op, Sum>) {
    return &combine_complex<Real, End>;
  } else {
    return widest_combine<T, S, Op, End>();
  }
}

/// Whether the type is floating-point or complex.
bool is_floating(DataType type) {
  switch (type) {
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::float32:
    case DataType::float64:
    case DataType::float8_e4m3:
    case DataType::float8_e5m2:
    case DataType::complex64:
    case DataType::complex128:
      return true;
    default:
      return false;
  }
}

template <class T, class S, class Op>
Reduction by() {
  return {sizeof(S), &load<T, S>, &add<T, S, Op>, &store<T, S>, combine_of<T, S, Op, Whole>()};
}

template <class T, class S>
Reduction reduction_of(ReduceOp op) {
  if constexpr (std::is_integral_v<T>) {
    if (op == ReduceOp::band) return by<T, S, And>();
    if (op == ReduceOp::bor) return by<T, S, Or>();
    if (op == ReduceOp::bxor) return by<T, S, Xor>();
  }
  if (op == ReduceOp::product) return by<T, S, Product>();
  if constexpr (std::is_convertible_v<S, float>) {  // complex numbers have no order
    if (op == ReduceOp::min) return by<T, S, Min>();
    if (op == ReduceOp::max) return by<T, S, Max>();
  }
  if constexpr (!std::is_integral_v<T>) {
    if (op == ReduceOp::avg) {
      return {sizeof(S), &load<T, S>, &add<T, S, Sum>, &store_average<T, S>,
              combine_of<T, S, Sum, Average>()};
    }
  }
  return by<T, S, Sum>();
}

}  // namespace

Reduction reduction(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::float16:
      return reduction_of<float16, float>(op);
    case DataType::bfloat16:
      return reduction_of<bfloat16, float>(op);
    case DataType::float32:
      return reduction_of<float, float>(op);
    case DataType::float64:
      return reduction_of<double, double>(op);
    case DataType::int8:
      return reduction_of<std::int8_t, std::int8_t>(op);
    case DataType::uint8:
    case DataType::boolean:
    case DataType::opaque:
      return reduction_of<std::uint8_t, std::uint8_t>(op);
    case DataType::float8_e4m3:
      return reduction_of<float8_e4m3, float>(op);
    case DataType::float8_e5m2:
      return reduction_of<float8_e5m2, float>(op);
    case DataType::complex64:
      return reduction_of<std::complex<float>, std::complex<float>>(op);
    case DataType::complex128:
      return reduction_of<std::complex<double>, std::complex<double>>(op);
    case DataType::int32:
      return reduction_of<std::int32_t, std::int32_t>(op);
    case DataType::int64:
      return reduction_of<std::int64_t, std::int64_t>(op);
    case DataType::int16:
      return reduction_of<std::int16_t, std::int16_t>(op);
    case DataType::uint16:
      return reduction_of<std::uint16_t, std::uint16_t>(op);
    case DataType::uint32:
      return reduction_of<std::uint32_t, std::uint32_t>(op);
    case DataType::uint64:
      break;
  }
  return reduction_of<std::uint64_t, std::uint64_t>(op);
}

bool allows(DataType type, ReduceOp op) {
  if (type == DataType::opaque) return false;
  switch (op) {
    case ReduceOp::avg:
      return is_floating(type);
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      return !is_floating(type);
    case ReduceOp::sum:
    case ReduceOp::product:
      return type != DataType::boolean;
    case ReduceOp::min:
    case ReduceOp::max:
      return type != DataType::complex64 && type != DataType::complex128;
  }
  return false;
}

const char* types_with(ReduceOp op) {
  switch (op) {
    case ReduceOp::avg:
      return "floating-point types";
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      return "integers and bool";
    case ReduceOp::min:
    case ReduceOp::max:
      return "real numbers and bool";
    case ReduceOp::sum:
    case ReduceOp::product:
      break;
  }
  return "numbers";
}

}  // namespace ddp::internal
