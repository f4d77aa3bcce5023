// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

#include "ddp/error.h"
#include "ddp/types.h"

namespace ddp {

/// Matrices of Eigen, with memory of their own (or Eigen::Map, .col(), .middleCols() ...).
template <class M>
concept EigenMatrix = requires(M& matrix) {
  requires std::is_pointer_v<decltype(matrix.data())>;
  requires Movable<typename std::remove_cvref_t<M>::Scalar>;
  matrix.size();
  matrix.innerSize();
  matrix.outerSize();
  matrix.innerStride();
  matrix.outerStride();
};

/// std::mdspan, and Kokkos's for compilers without it, with plain pointers.
template <class M>
concept MdSpan = requires(const M& array) {
  requires std::is_pointer_v<decltype(array.data_handle())>;
  requires Movable<typename M::value_type>;
  array.size();
  array.is_exhaustive();
  array.is_unique();
};

namespace internal {

/// A Buffer, or a ConstBuffer of constant elements.
template <class T>
auto buffer_at(T* data, std::size_t count) {
  using Result = std::conditional_t<std::is_const_v<T>, ConstBuffer, Buffer>;
  return Result(std::span<T>(data, count));
}

[[noreturn]] inline void refuse_view(const std::string& what) {
  throw Error(ErrorKind::usage, "ddp: " + what);
}

}  // namespace internal

/// Returns the elements of a matrix, in memory order (Eigen's default: column by column), as a
/// Buffer; if the matrix is constant, as a ConstBuffer. The matrix must outlive the call that uses
/// it. Errors: usage (its elements do not lie side by side).
///
///     Eigen::MatrixXf gradients(100, 10);
///     group.all_reduce(ddp::view(gradients));
template <EigenMatrix M>
auto view(M&& matrix) {
  const bool lines = matrix.innerSize() <= 1 || matrix.innerStride() == 1;
  const bool all = matrix.outerSize() <= 1 || matrix.outerStride() == matrix.innerSize();
  if (matrix.size() > 0 && !(lines && all)) {
    internal::refuse_view("the elements of a matrix do not lie side by side: strides are " +
                          std::to_string(matrix.innerStride()) + " and " +
                          std::to_string(matrix.outerStride()) + ", inner size is " +
                          std::to_string(matrix.innerSize()));
  }
  return internal::buffer_at(matrix.data(), static_cast<std::size_t>(matrix.size()));
}

/// The same for an mdspan: in the order of its layout.
template <MdSpan M>
auto view(const M& array) {
  if (!array.is_exhaustive() || !array.is_unique()) {
    internal::refuse_view("the elements of an mdspan do not lie side by side");
  }
  return internal::buffer_at(array.data_handle(), static_cast<std::size_t>(array.size()));
}

}  // namespace ddp
