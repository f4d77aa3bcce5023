// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

#include "ddp/float16.h"
#include "ddp/float8.h"

struct CUstream_st;  // what CUDA's cudaStream_t points to

namespace ddp {

/// How the elements of all ranks are combined. Integers wrap around, as unsigned ones do in C++.
/// Floating-point types of 8 and 16 bits are combined in float32 and rounded once, at the end (by
/// nccl on a device: at each step). The min and max of numbers and NaN are NaN (by nccl on a
/// device: as NCCL has it).
enum class ReduceOp {
  sum,  ///< not of bool
  avg,  ///< the sum divided by the number of ranks; not of integers
  product,
  min,  ///< not of complex numbers; of bool: whether all are true
  max,
  band,  ///< bitwise and; this and the next two are only for integers and bool, and not for nccl on
         ///< a device
  bor,   ///< bitwise or
  bxor,  ///< bitwise exclusive or
};

/// The types of elements.
enum class DataType {
  float16,
  bfloat16,
  float32,
  float64,
  int8,
  uint8,
  int32,
  int64,
  int16,
  uint16,
  uint32,
  uint64,
  boolean,      ///< bool
  float8_e4m3,  ///< see float8.h
  float8_e5m2,
  complex64,   ///< two float32
  complex128,  ///< two float64
  opaque,      ///< only in a Buffer: structs, of Buffer::width bytes each
};

namespace internal {

/// An integer of 1 to 8 bytes; bool has a DataType of its own.
template <class T>
concept Integer = std::integral<T> && std::same_as<T, std::remove_cv_t<T>> &&
                  !std::same_as<T, bool> && sizeof(T) <= 8;

constexpr DataType integer_type(std::size_t size, bool is_signed) {
  if (size == 1) return is_signed ? DataType::int8 : DataType::uint8;
  if (size == 2) return is_signed ? DataType::int16 : DataType::uint16;
  if (size == 4) return is_signed ? DataType::int32 : DataType::uint32;
  return is_signed ? DataType::int64 : DataType::uint64;
}

/// The DataType of a C++ type; empty if it has none.
template <class T>
struct TypeOf {};
template <DataType type>
using IsType = std::integral_constant<DataType, type>;

template <>
struct TypeOf<float16> : IsType<DataType::float16> {};
template <>
struct TypeOf<bfloat16> : IsType<DataType::bfloat16> {};
template <>
struct TypeOf<float> : IsType<DataType::float32> {};
template <>
struct TypeOf<double> : IsType<DataType::float64> {};
template <>
struct TypeOf<float8_e4m3> : IsType<DataType::float8_e4m3> {};
template <>
struct TypeOf<float8_e5m2> : IsType<DataType::float8_e5m2> {};
template <>
struct TypeOf<std::complex<float>> : IsType<DataType::complex64> {};
template <>
struct TypeOf<std::complex<double>> : IsType<DataType::complex128> {};
template <>
struct TypeOf<bool> : IsType<DataType::boolean> {};
template <>
struct TypeOf<std::byte> : IsType<DataType::uint8> {};
template <Integer T>
struct TypeOf<T> : IsType<integer_type(sizeof(T), std::is_signed_v<T>)> {};
#ifdef __STDCPP_FLOAT16_T__
template <>
struct TypeOf<std::float16_t> : IsType<DataType::float16> {};
#endif
#ifdef __STDCPP_BFLOAT16_T__
template <>
struct TypeOf<std::bfloat16_t> : IsType<DataType::bfloat16> {};
#endif

}  // namespace internal

/// A C++ type that has a DataType: float, double, ddp::float16, ddp::bfloat16, ddp::float8_e4m3,
/// ddp::float8_e5m2, std::float16_t and std::bfloat16_t if the compiler has them, every integer
/// type (the DataType of its size and sign), bool, std::byte (uint8), std::complex<float> and
/// std::complex<double>.
template <class T>
concept Element = requires { internal::TypeOf<T>::value; };

/// The DataType of a C++ type.
template <Element T>
constexpr DataType data_type() {
  return internal::TypeOf<T>::value;
}

/// A type for calls that only move data: an Element, or a struct, an enumerator, or anything else
/// that can be copied as its bytes and means the same in another process: no pointer, no view.
template <class T>
concept Movable = Element<T> || (std::is_object_v<T> && std::same_as<T, std::remove_cv_t<T>> &&
                                 std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> &&
                                 !std::is_member_pointer_v<T> && !std::is_null_pointer_v<T> &&
                                 !std::ranges::view<T>);

namespace internal {

template <Movable T>
constexpr DataType type_or_opaque() {
  if constexpr (Element<T>) {
    return data_type<T>();
  } else {
    return DataType::opaque;
  }
}

}  // namespace internal

/// A contiguous range of elements that outlive the expression: a std::vector or std::array that has
/// a name, a std::span, ...
template <class R>
concept ReadableElements = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                           std::ranges::borrowed_range<R> && Movable<std::ranges::range_value_t<R>>;

/// The same, with elements that can be written.
template <class R>
concept Elements = ReadableElements<R> &&
                   std::same_as<std::ranges::range_reference_t<R>, std::ranges::range_value_t<R>&>;

/// Contiguous elements in the memory of this process's current GPU, and a stream: its work before
/// the call may write them, its work after the call may use them (null: CUDA's default stream). The
/// buffers of a call are either all on a device or all in host memory. With two buffers, the stream
/// of `out` is used; those of a batch_send_recv must be the same.
template <class T>
  requires Movable<std::remove_const_t<T>>
struct DeviceSpan {
  T* data = nullptr;              ///< an address of the device
  std::size_t count = 0;          ///< elements, not bytes
  CUstream_st* stream = nullptr;  ///< see above

  /// Parts of it, as of a std::span: no part may end after `count`.
  constexpr DeviceSpan first(std::size_t elements) const { return {data, elements, stream}; }
  constexpr DeviceSpan subspan(std::size_t begin) const {
    return {data + begin, count - begin, stream};
  }
  constexpr DeviceSpan subspan(std::size_t begin, std::size_t elements) const {
    return {data + begin, elements, stream};
  }

  /// The same elements, for calls that only read them.
  constexpr operator DeviceSpan<const T>() const  // NOLINT(google-explicit-constructor)
    requires(!std::is_const_v<T>)
  {
    return {data, count, stream};
  }
};

namespace internal {

/// The elements of an argument, if a compiler knows them.
struct Content {
  bool is_known = false;
  DataType type = DataType::opaque;
  std::size_t width = 0;  ///< bytes of an element
  bool on_device = false;

  bool operator==(const Content&) const = default;
  constexpr bool differs_from(const Content& other) const {
    return is_known && other.is_known && *this != other;
  }
};

template <class B>
inline constexpr Content kContentOf = {};
template <class B>
  requires ReadableElements<const B&>
inline constexpr Content kContentOf<B> = {true, type_or_opaque<std::ranges::range_value_t<B>>(),
                                          sizeof(std::ranges::range_value_t<B>)};
template <class T>
inline constexpr Content kContentOf<DeviceSpan<T>> = {
    true, type_or_opaque<std::remove_const_t<T>>(), sizeof(T), true};

template <class First, class Second = int, class... Rest>
constexpr bool has_no_result() {
  const Content first = kContentOf<First>;
  const bool sums = !(std::same_as<Second, ReduceOp> || ... || std::same_as<Rest, ReduceOp>);
  if (first.differs_from(kContentOf<Second>)) return true;
  if (!first.is_known) return false;
  return first.type == DataType::opaque || (first.type == DataType::boolean && sums);
}

/// Two buffers of a call whose elements have different types, or lie in different memory.
template <class Out, class In>
concept UnlikeBuffer =
    kContentOf<std::remove_cvref_t<Out>>.differs_from(kContentOf<std::remove_cvref_t<In>>);

/// The arguments of a call that combines elements which cannot be combined: also structs, and bool
/// without an operation, as its sum.
template <class... Args>
concept NotCombinable = has_no_result<std::remove_cvref_t<Args>...>();

/// Elements that a std::vector can hold as a buffer.
template <class R>
concept Collectable =
    ReadableElements<const R&> && std::default_initializable<std::ranges::range_value_t<R>> &&
    !std::same_as<std::ranges::range_value_t<R>, bool>;

template <Collectable R>
std::vector<std::ranges::range_value_t<R>> room_for(const std::vector<std::size_t>& counts) {
  std::size_t total = 0;
  for (const std::size_t count : counts) total += count;
  return std::vector<std::ranges::range_value_t<R>>(total);
}

/// An array, or a list in braces, that outlives the call.
template <class T>
struct List : std::span<const T> {
  using std::span<const T>::span;
  constexpr List() = default;
  constexpr List(std::initializer_list<T> all)  // NOLINT(google-explicit-constructor)
      : std::span<const T>(all.begin(), all.size()) {}
};

}  // namespace internal

/// Elements of one type that a call writes, in memory that the caller owns. Any range of elements
/// in host memory converts to it, as does a DeviceSpan: a call can be passed a std::vector<float>.
/// Programs that know the type of elements only at run time use the constructors that name it.
///
/// Structs (Movable, but no Element) are moved as their bytes, with counts of structs: they cannot
/// be combined. Error messages and traces show them as uint8.
struct Buffer {
  void* data = nullptr;               ///< the caller's
  std::size_t count = 0;              ///< elements, not bytes
  DataType type = DataType::float32;  ///< of each element
  bool on_device = false;             ///< else in host memory
  CUstream_st* stream = nullptr;      ///< ignored unless on_device
  std::size_t width = 0;              ///< bytes of each struct if `type` is opaque, else 0

  /// No elements; elements in host memory; on a device; those of a span or a range.
  constexpr Buffer() = default;
  constexpr Buffer(void* memory, std::size_t elements, DataType of)
      : data(memory), count(elements), type(of) {}
  constexpr Buffer(void* memory, std::size_t elements, DataType of, CUstream_st* device_stream)
      : data(memory), count(elements), type(of), on_device(true), stream(device_stream) {}
  template <Movable T>
  constexpr Buffer(const DeviceSpan<T>& span)  // NOLINT(google-explicit-constructor)
      : Buffer(span.data, span.count, internal::type_or_opaque<T>(), span.stream) {
    if (type == DataType::opaque) width = sizeof(T);
  }
  template <Elements R>
  // NOLINTNEXTLINE(google-explicit-constructor,bugprone-forwarding-reference-overload)
  constexpr Buffer(R&& range)
      : data(std::ranges::data(range)),
        count(std::ranges::size(range)),
        type(internal::type_or_opaque<std::ranges::range_value_t<R>>()) {
    if (type == DataType::opaque) width = sizeof(std::ranges::range_value_t<R>);
  }
};

/// Elements of one type that a call only reads.
struct ConstBuffer {
  const void* data = nullptr;         ///< the caller's
  std::size_t count = 0;              ///< elements, not bytes
  DataType type = DataType::float32;  ///< of each element
  bool on_device = false;             ///< else in host memory
  CUstream_st* stream = nullptr;      ///< ignored unless on_device
  std::size_t width = 0;              ///< bytes of each struct if `type` is opaque, else 0

  /// No elements; elements in host memory; on a device; those of a Buffer, a span or a range.
  constexpr ConstBuffer() = default;
  constexpr ConstBuffer(const void* memory, std::size_t elements, DataType of)
      : data(memory), count(elements), type(of) {}
  constexpr ConstBuffer(const void* memory, std::size_t elements, DataType of,
                        CUstream_st* device_stream)
      : data(memory), count(elements), type(of), on_device(true), stream(device_stream) {}
  constexpr ConstBuffer(const Buffer& buffer)  // NOLINT(google-explicit-constructor)
      : data(buffer.data),
        count(buffer.count),
        type(buffer.type),
        on_device(buffer.on_device),
        stream(buffer.stream),
        width(buffer.width) {}
  template <class T>
    requires Movable<std::remove_const_t<T>>
  constexpr ConstBuffer(const DeviceSpan<T>& span)  // NOLINT(google-explicit-constructor)
      : ConstBuffer(span.data, span.count, internal::type_or_opaque<std::remove_const_t<T>>(),
                    span.stream) {
    if (type == DataType::opaque) width = sizeof(T);
  }
  template <ReadableElements R>
  // NOLINTNEXTLINE(google-explicit-constructor,bugprone-forwarding-reference-overload)
  constexpr ConstBuffer(R&& range)
      : data(std::ranges::data(range)),
        count(std::ranges::size(range)),
        type(internal::type_or_opaque<std::ranges::range_value_t<R>>()) {
    if (type == DataType::opaque) width = sizeof(std::ranges::range_value_t<R>);
  }
};

/// One value, which calls take and return instead of a buffer: a Movable that is no buffer itself.
template <class T>
concept Value = Movable<T> && !std::convertible_to<T&, ConstBuffer>;

/// A value that has a sum: all Elements but bool.
template <class T>
concept Summable = Value<T> && Element<T> && !std::same_as<T, bool>;

/// One message of ProcessGroup::batch_send_recv.
struct P2POp {
  bool sends = true;  ///< else receives
  Buffer buffer;      ///< only read if it sends
  int peer = 0;       ///< the rank that receives or sends it
  int tag = 0;        ///< the same on both sides

  /// A message to rank `to`; a message from rank `from`.
  static P2POp send(const ConstBuffer& data, int to, int tag = 0) {
    P2POp op{.sends = true, .buffer = {}, .peer = to, .tag = tag};
    op.buffer.data = const_cast<void*>(data.data);
    op.buffer.count = data.count;
    op.buffer.type = data.type;
    op.buffer.on_device = data.on_device;
    op.buffer.stream = data.stream;
    op.buffer.width = data.width;
    return op;
  }
  static P2POp recv(const Buffer& data, int from, int tag = 0) { return {false, data, from, tag}; }
};

}  // namespace ddp
