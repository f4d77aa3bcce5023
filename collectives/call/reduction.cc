// SPDX-License-Identifier: Apache-2.0
#include "collectives/call/reduction.h"

#include <complex>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace ddp::internal {
namespace {

/// The type in which integers are computed: unsigned, so that they wrap around, and not narrower
/// than int, to which they would be promoted.
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
struct Min {
  template <class T>
  static T of(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  static T of(T a, T b) {
    return a < b ? b : a;
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

/// Complex numbers are, too.
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
constexpr Reduction kBy = {sizeof(S), &load<T, S>, &add<T, S, Op>, &store<T, S>};

template <class T, class S>
Reduction reduction_of(ReduceOp op) {
  if constexpr (std::is_integral_v<T>) {
    if (op == ReduceOp::band) return kBy<T, S, And>;
    if (op == ReduceOp::bor) return kBy<T, S, Or>;
    if (op == ReduceOp::bxor) return kBy<T, S, Xor>;
  }
  if (op == ReduceOp::product) return kBy<T, S, Product>;
  if constexpr (std::is_convertible_v<S, float>) {  // else complex: no order
    if (op == ReduceOp::min) return kBy<T, S, Min>;
    if (op == ReduceOp::max) return kBy<T, S, Max>;
  }
  Reduction sum = kBy<T, S, Sum>;
  if constexpr (!std::is_integral_v<T>) {
    if (op == ReduceOp::avg) sum.store = &store_average<T, S>;
  }
  return sum;
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
