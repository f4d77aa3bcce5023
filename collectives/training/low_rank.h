// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <random>
#include <span>

namespace ddp::internal {

/// A matrix in memory that somebody else owns, row by row.
struct Matrix {
  std::span<float> elements;
  std::size_t columns = 0;

  std::size_t rows() const { return elements.size() / columns; }
  std::span<float> row(std::size_t i) const { return elements.subspan(i * columns, columns); }
};

/// The steps of an approximation of a matrix by a few pairs of vectors (PowerSGD): the rows of p,
/// as long as its columns, and those of q, as long as its rows. Results must not overlap what is
/// read.

/// Each row of p = matrix * row of q.
void multiply(const Matrix& matrix, const Matrix& q, const Matrix& p);

/// Each row of q = transposed matrix * row of p.
void multiply_transposed(const Matrix& matrix, const Matrix& p, const Matrix& q);

/// matrix = transposed p * q; `rest` gets what it was more before.
void approximate(const Matrix& matrix, const Matrix& p, const Matrix& q, std::span<float> rest);

/// Makes the rows orthogonal, of length 1 (modified Gram-Schmidt). A row that depends on those
/// before it becomes 0.
void orthonormalize(const Matrix& a);

/// The same, but such a row is filled by chance.
void orthonormalize(const Matrix& a, std::mt19937& chance);

/// Numbers from -1 to 1, the same on all platforms. Pure.
void fill_by_chance(std::span<float> elements, std::mt19937& chance);

}  // namespace ddp::internal
