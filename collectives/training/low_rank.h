// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <random>
#include <span>

namespace ddp::internal {

/// A matrix, row by row, in memory that it does not own.
struct Matrix {
  std::span<float> elements;
  std::size_t columns = 0;

  std::size_t rows() const { return elements.size() / columns; }
  std::span<float> row(std::size_t i) const { return elements.subspan(i * columns, columns); }
};

/// The steps that approximate a matrix by a few pairs of vectors (PowerSGD): the rows of p, as long
/// as the matrix's columns, and the rows of q, as long as its rows. Results must not overlap
/// inputs.

/// Each row of p = matrix * row of q.
void multiply(const Matrix& matrix, const Matrix& q, const Matrix& p);

/// Each row of q = transposed matrix * row of p.
void multiply_transposed(const Matrix& matrix, const Matrix& p, const Matrix& q);

/// matrix = transposed p * q; `rest` gets the old matrix minus the new one.
void approximate(const Matrix& matrix, const Matrix& p, const Matrix& q, std::span<float> rest);

/// Makes the rows orthogonal, of length 1 (modified Gram-Schmidt). A row that depends on the rows
/// before it becomes 0.
void orthonormalize(const Matrix& a);

/// The same, but fills such a row with random numbers.
void orthonormalize(const Matrix& a, std::mt19937& chance);

/// Fills with random numbers from -1 to 1, the same on all platforms. Pure.
void fill_by_chance(std::span<float> elements, std::mt19937& chance);

}  // namespace ddp::internal
